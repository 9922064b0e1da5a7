"""Failures that say what was done, what was expected and what was found.

The run adds the clause's sentence, where to look, and the line that reproduces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


class ClauseBroken(AssertionError):
    """Something that the contract forbids."""


def check_that(holds: bool, what: str, *, expected: object, actual: object, history: Sequence[str] = ()) -> None:
    """Require something, or fail with what was expected, what was found and what was done before."""
    if not holds:
        _fail(what, expected, actual, history)


def check_equal(what: str, actual: object, expected: object, *, history: Sequence[str] = ()) -> None:
    """Require that ``what`` is as expected."""
    if actual != expected:
        _fail(f"{what} differ from what is expected", expected, actual, history)


def _fail(what: str, expected: object, actual: object, history: Sequence[str]) -> NoReturn:
    told = " ".join(history) or "nothing before"
    raise ClauseBroken(f"{what}\nhistory:  {told}\nexpected: {expected}\nactual:   {actual}")
