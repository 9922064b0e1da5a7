"""Failures that say what was done, what was expected and what was found.

The run adds the clause's sentence, where to look, and the line that reproduces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn


class ClauseBroken(AssertionError):
    """Something that the contract forbids."""


def check_that(holds: bool, what: str, *, expected: object, actual: object, history: Sequence[str] = ()) -> None:
    """Require something, or fail with what was expected, what was found and what was done before."""
    if not holds:
        _fail(what, expected, actual, history)


def check_equal(what: str, actual: object, expected: object, *, history: Sequence[str] = ()) -> None:
    """Require that ``what`` is as expected; the failure shows what differs in mappings, and from where on in lists."""
    if actual == expected:
        return
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        names = [name for name in {**expected, **actual} if expected.get(name) != actual.get(name)]
        expected, actual = ({name: each.get(name) for name in names} for each in (expected, actual))
    _fail(f"{what}: not as expected{_place(actual, expected)}", expected, actual, history)


def _place(actual: object, expected: object) -> str:
    """Return the place of the first difference of two lists that are too long to see it at once."""
    if not (isinstance(actual, list) and isinstance(expected, list)) or max(len(actual), len(expected)) < 8:
        return ""
    same = (one == other for one, other in zip(actual, expected, strict=False))
    return (
        f", from index {next((at for at, equal in enumerate(same) if not equal), min(len(actual), len(expected)))} on"
    )


def _fail(what: str, expected: object, actual: object, history: Sequence[str]) -> NoReturn:
    told = f"history:  {' '.join(history)}\n" if history else ""
    raise ClauseBroken(f"{what}\n{told}expected: {expected}\nactual:   {actual}")
