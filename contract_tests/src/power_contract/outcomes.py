"""What became of every clause in one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

import attrs

from power_contract.clauses import NOT_RUN_HERE, Clause
from power_contract.subject import ContractSubject

Result: TypeAlias = Literal[
    "passed", "failed", "waived", "blocked", "not declared", "not run here", "not selected", "no test"
]
RESULTS: tuple[Result, ...] = get_args(Result)
BLOCKED = "blocked by "


@attrs.frozen(kw_only=True)
class TestOutcome:
    """One test of the suite.

    Attributes:
        test: Its name with parameters.
        clause: Clause that it checks.
        outcome: As pytest has it.
        detail: Failure text, or the reason of a skip.
    """

    __test__ = False

    test: str
    clause: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str = ""
    seconds: float = 0.0


@attrs.frozen(kw_only=True)
class ClauseOutcome:
    """One clause.

    Attributes:
        clause: Id.
        area: Area of the clause.
        result: ``not selected`` when a selection of tests left it out, ``no test`` when the suite has none for it.
        tests: Tests that ran.
        seconds: Time of these tests.
        detail: Why it did not simply pass.
    """

    clause: str
    area: str
    result: Result
    tests: int = 0
    seconds: float = 0.0
    detail: str = ""


def judge(
    subject: ContractSubject, clauses: Iterable[Clause], tests: Sequence[TestOutcome], left_out: set[str]
) -> list[ClauseOutcome]:
    """Return the outcome of every clause from its tests; ``left_out`` are clauses whose tests did not all run."""
    return [_judge_one(subject, each, [test for test in tests if test.clause == each.id], left_out) for each in clauses]


def _judge_one(
    subject: ContractSubject, clause: Clause, tests: Sequence[TestOutcome], left_out: set[str]
) -> ClauseOutcome:
    missing = [feature for feature in clause.needs if feature not in subject.features]
    if missing:
        return ClauseOutcome(clause=clause.id, area=clause.area, result="not declared", detail=", ".join(missing))
    result, detail = _result(subject, clause, tests, left_out)
    return ClauseOutcome(
        clause=clause.id,
        area=clause.area,
        result=result,
        tests=len(tests),
        seconds=round(sum(test.seconds for test in tests), 3),
        detail=detail,
    )


def _result(
    subject: ContractSubject, clause: Clause, tests: Sequence[TestOutcome], left_out: set[str]
) -> tuple[Result, str]:
    waiver = next((waiver for waiver in subject.waivers if waiver.clause == clause.id), None)
    failed = [test for test in tests if test.outcome == "failed"]
    skipped = [test for test in tests if test.outcome == "skipped"]
    if failed and waiver is not None:
        return "waived", f"{waiver.reason} ({waiver.link})"
    if failed:
        return "failed", failed[0].detail
    if skipped:
        detail = skipped[0].detail
        return (
            ("blocked", detail) if detail.startswith(BLOCKED) else ("not run here", detail.removeprefix(NOT_RUN_HERE))
        )
    if clause.id in left_out or not tests:
        return ("not selected" if clause.id in left_out else "no test"), ""
    if waiver is not None:
        return "failed", f"the waiver ({waiver.reason}) is out of date: the clause holds; remove it"
    return "passed", ""
