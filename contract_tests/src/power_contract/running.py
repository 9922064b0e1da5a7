"""Run the suite in this process: what the command line does, and what tests of the kit itself do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path

import attrs
import pytest

from power_contract.contract_run import RUN_NAME, ContractRun
from power_contract.profiles import PROFILES, Profile
from power_contract.report import ContractReport, make_report
from power_contract.subject import ContractSubject

PACKAGE = Path(__file__).parent
SUITE = PACKAGE / "suite"


@attrs.frozen(kw_only=True)
class FinishedRun:
    """A run that came to its end.

    Attributes:
        status: Exit status of pytest; 0 only with no unexplained failure.
        report: What became of every clause.
        obstacle: Why nothing could be judged; None when something could.
    """

    status: int
    report: ContractReport
    obstacle: str | None = None

    @property
    def failed_clauses(self) -> tuple[str, ...]:
        """Ids of the clauses that failed."""
        return tuple(each.clause for each in self.report.clauses if each.result == "failed")


def run_contract(
    subject: ContractSubject,
    *,
    profile: Profile = PROFILES["ci"],
    word: str | None = None,
    clauses: Sequence[str] = (),
    arguments: Sequence[str] = (),
    quiet: bool = False,
    suite: Path = SUITE,
) -> FinishedRun:
    """Run the suite for a subject with pytest, and return what came of it.

    Args:
        subject: The plugin under test.
        profile: Sizes of the run.
        word: What the user called the subject, for the lines that reproduce a failure.
        clauses: Run only these.
        arguments: More arguments for pytest.
        quiet: Print nothing.
        suite: Folder of the tests.
    """
    run = ContractRun(subject, profile, word)
    chosen = ["-k", " or ".join(clauses)] if clauses else []
    settled = ["-c", str(SUITE / "pytest.ini"), "--rootdir", str(suite.parent), "-p", "no:cacheprovider"]
    plugin = ["-p", "power_contract.pytest_plugin"]
    with redirect_stdout(StringIO()) if quiet else nullcontext():
        status = pytest.main([*settled, *plugin, *chosen, *arguments, str(suite)], plugins=[_Registered(run)])
    return FinishedRun(status=int(status), report=make_report(run), obstacle=run.obstacle)


class _Registered:
    """Registers the run under its name once pytest is configured enough to take its fixtures."""

    def __init__(self, run: ContractRun) -> None:
        self._run = run

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self._run, RUN_NAME)
