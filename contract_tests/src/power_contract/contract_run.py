"""The pytest plugin object of one run: chooses and orders the tests of a subject, and keeps what became of them."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest

from power_contract.cache_folder import own_cache_folder
from power_contract.clauses import AREAS, Clause, find_clause, load_clauses
from power_contract.dealing import deal_kinds
from power_contract.histories import MUTABLE, HistoryCounts
from power_contract.materials import close_models, target_kinds
from power_contract.obstacles import find_obstacle
from power_contract.outcomes import BLOCKED, ClauseOutcome, TestOutcome, judge
from power_contract.profiles import Profile, profile_in_force
from power_contract.subject import ContractSubject

RUN_NAME = "power-contract-run"
SKIPPED = re.compile(r"^Skipped: ")


class ContractRun:
    """Runs the suite for one subject. Registered with pytest before the suite is imported.

    Args:
        subject: The plugin under test.
        profile: Sizes of the run.
        word: What ``power-contract run`` was given, for the lines that reproduce a failure; the subject's name if None.

    Attributes:
        subject: The plugin under test.
        profile: Sizes of the run.
        tests: Outcome of every test that ran, in order.
        histories: What the histories reached.
        problems: What is wrong with the run itself.
        obstacle: Why nothing could be judged; None when something could.
        seconds: Duration of the whole run.
        seed: Seed of Hypothesis where one was given, else ``random``; ``derandomized`` when every run draws the same.
    """

    def __init__(self, subject: ContractSubject, profile: Profile, word: str | None = None) -> None:
        self.subject = subject
        self.profile = profile
        self._word = word or subject.name
        self._planned: dict[str, str] = {}
        self._ran: set[str] = set()
        self._stack = ExitStack()
        self._started = 0.0
        self.tests: list[TestOutcome] = []
        self.histories = HistoryCounts()
        self.problems: list[str] = [_unknown(waiver.clause) for waiver in subject.waivers if _is_unknown(waiver.clause)]
        self.obstacle: str | None = None
        self.seconds = 0.0
        self.seed = "derandomized"

    def clauses(self) -> list[ClauseOutcome]:
        """Return the outcome of every clause."""
        return judge(self.subject, load_clauses().values(), self.tests, self._left_out())

    @property
    def whole(self) -> bool:
        """True when every test that applies has run."""
        return not self._left_out()

    # ---------------------------------------------------------------------------------------------------------- hooks

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Put the profile in force before the suite, and with it every property, is imported."""
        if not self.profile.derandomized:
            self.seed = str(session.config.getoption("hypothesis_seed", None) or "random")
        self._started = time.monotonic()
        self._stack.enter_context(profile_in_force(self.profile))
        self._stack.enter_context(own_cache_folder())
        self.obstacle = find_obstacle(self.subject)
        if self.obstacle is not None:
            self.problems.append(self.obstacle)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test with a ``target_kind`` or ``bench_kind`` once for each kind of the subject."""
        if "target_kind" in metafunc.fixturenames:
            metafunc.parametrize("target_kind", self.subject.target_kinds)
        if "bench_kind" in metafunc.fixturenames:
            metafunc.parametrize("bench_kind", target_kinds(self.subject))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what the subject does not declare, order by area, and let ``-k`` know clause ids."""
        for item in items:
            item.user_properties.append(("clause", _clause_of(item).id))
            item.extra_keyword_matches.add(_clause_of(item).id)
        items[:] = [item for item in items if self.subject.features.issuperset(_clause_of(item).needs)]
        if not self.profile.every_kind:
            items[:] = deal_kinds(items)
        areas = list(AREAS)
        items.sort(key=lambda item: (areas.index(_clause_of(item).area), _clause_of(item).id))
        self._planned = {item.nodeid: _clause_of(item).id for item in items}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip what cannot be judged: everything behind an obstacle, and what depends on a clause that failed."""
        if self.obstacle is not None:
            pytest.skip(f"{BLOCKED}the set-up: {self.obstacle}")
        failed = {test.clause for test in self.tests if test.outcome == "failed"}
        for blocker in _clause_of(item).blocked_by:
            if blocker in failed:
                pytest.skip(BLOCKED + blocker)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add to a failure what the clause says, and forgive it where the clause is waived."""
        report = yield
        clause = _clause_of(item)
        if report.failed:
            report.sections.insert(0, (f"clause {clause.id}", self._explanation(clause)))
        if report.when == "call" or report.outcome != "passed":
            self._keep(clause, item, report)
        if report.failed and any(waiver.clause == clause.id for waiver in self.subject.waivers):
            report.outcome = "skipped"
            report.wasxfail = "waived"
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge the run as a whole."""
        self.seconds = time.monotonic() - self._started
        close_models()
        self._stack.close()
        self.problems += self._whole_run_problems() if self.whole and self.obstacle is None else []
        stale = any(each.result in ("failed", "no test") for each in self.clauses())
        if session.exitstatus == pytest.ExitCode.OK and (self.problems or stale):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    # --------------------------------------------------------------------------------------------------------- private

    def _left_out(self) -> set[str]:
        """Return the clauses of which a test did not run: not selected, or after the run was stopped."""
        return {clause for test, clause in self._planned.items() if test not in self._ran}

    def _keep(self, clause: Clause, item: pytest.Item, report: pytest.TestReport) -> None:
        self._ran.add(item.nodeid)
        detail = report.longreprtext
        if report.skipped and isinstance(report.longrepr, tuple):
            detail = SKIPPED.sub("", report.longrepr[2])
        self.tests.append(
            TestOutcome(
                test=item.name,
                clause=clause.id,
                outcome=report.outcome,
                detail=detail,
                seconds=round(report.duration, 3),
            )
        )

    def _explanation(self, clause: Clause) -> str:
        seed = "" if self.profile.derandomized else f" --seed {self.seed}"
        line = f"power-contract run {self._word} --profile {self.profile.name}{seed} -k {clause.id}"
        return f"{clause.text}\nlook at:   {clause.look}\nreproduce: {line}"

    def _whole_run_problems(self) -> Iterator[str]:
        for kind, reached in self.histories.table(target_kinds(self.subject)).items():
            for name, count in reached.items():
                if count == 0 and (name != MUTABLE or self._has_mutable_state(kind)):
                    yield f"no history on a {kind} target reached: {name}"

    def _has_mutable_state(self, target_kind: str) -> bool:
        return target_kind != "attention" or "mutable-memory" in self.subject.features


def _clause_of(item: pytest.Item) -> Clause:
    marker = item.get_closest_marker("clause")
    if marker is None:
        raise pytest.UsageError(f"{item.nodeid} checks no clause; mark it with @clause(ID)")
    return find_clause(marker.args[0])


def _is_unknown(clause_id: str) -> bool:
    return clause_id not in load_clauses()


def _unknown(clause_id: str) -> str:
    return f"a waiver names clause {clause_id!r}, which does not exist"
