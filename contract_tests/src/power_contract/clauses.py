"""The clauses of the contract: read from clauses.toml, and the decorator that ties a test to one of them."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import NoReturn

import attrs
import pytest

from power_core.errors import ConfigError

AREAS: dict[str, str] = {
    "INFO": "handshake and registration",
    "LIFE": "life cycle",
    "ART": "files",
    "DRAFT": "proposals",
    "VERIFY": "verification",
    "TXN": "transactions",
    "CACHE": "memory and rollback",
    "SAMPLE": "sampling",
    "SCHED": "limits and budgets",
    "NUM": "figures of the report",
    "NATIVE": "native library",
}
"""Every area, in the order in which its clauses run."""

NOT_RUN_HERE = "not run here: "


@attrs.frozen(kw_only=True)
class Clause:
    """One sentence that holds for every plugin with the features it needs.

    Attributes:
        id: ``AREA-NN``.
        text: The sentence.
        source: Where it comes from.
        needs: Features without which it says nothing.
        since: First contract version that has it.
        look: Where to look when it is broken.
        blocked_by: Clauses without which it cannot be judged.
    """

    id: str
    area: str
    text: str
    source: str
    look: str
    needs: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    since: str = "1.0"
    blocked_by: tuple[str, ...] = attrs.field(default=(), converter=tuple)


@cache
def load_clauses() -> dict[str, Clause]:
    """Return every clause by id, in the order in which they run."""
    text = resources.files("power_contract").joinpath("clauses.toml").read_text(encoding="utf-8")
    areas = list(AREAS)
    clauses = [Clause(**entry) for entry in tomllib.loads(text)["clause"]]
    return {each.id: each for each in sorted(clauses, key=lambda each: (areas.index(each.area), each.id))}


def find_clause(clause_id: str) -> Clause:
    """Return the clause of that id.

    Raises:
        ConfigError: there is none.
    """
    clauses = load_clauses()
    if clause_id not in clauses:
        raise ConfigError(
            f"there is no clause {clause_id!r}",
            field="clause",
            value=clause_id,
            allowed=f"{len(clauses)} ids, from {min(clauses)} to {max(clauses)}",
            hint="`power-contract list` shows all",
        )
    return clauses[clause_id]


def clause(clause_id: str) -> pytest.MarkDecorator:
    """Mark a test of the suite as a check of that clause; each test checks exactly one."""
    return pytest.mark.clause(find_clause(clause_id).id)


def not_run_here(reason: str) -> NoReturn:
    """Leave the running test because this machine lacks something, such as a GPU; the report names the reason."""
    pytest.skip(NOT_RUN_HERE + reason)
