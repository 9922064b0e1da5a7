"""Options for ``pytest -p power_contract.pytest_plugin --pyargs power_contract.suite --subject NAME``, and the summary.

It is no plugin that pytest loads by itself: it must not touch other people's test runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("power_contract.assertions")

from power_contract.cache_folder import own_cache_folder  # noqa: E402
from power_contract.contract_run import RUN_NAME, ContractRun  # noqa: E402 - rewriting is registered before the first import
from power_contract.histories import HistoryCounts  # noqa: E402
from power_contract.profiles import PROFILE_NAMES, Profile, find_profile  # noqa: E402
from power_contract.report import make_report, write_report  # noqa: E402
from power_contract.subject import ContractSubject, find_subject  # noqa: E402
from power_contract.summary import summary_lines  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the kit."""
    group = parser.getgroup("power-contract", "contract kit")
    group.addoption("--subject", metavar="NAME", help="contract subject: a distribution, or module:attribute")
    group.addoption("--profile", choices=PROFILE_NAMES, default="contract", help="sizes of the run")
    group.addoption("--report", metavar="FILE", type=Path, help="write the report as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Register the run, unless the caller of pytest already did."""
    config.addinivalue_line("markers", "clause(id): the contract clause that a test checks")
    word = config.getoption("subject")
    if word is not None and not config.pluginmanager.has_plugin(RUN_NAME):
        run = ContractRun(find_subject(word), find_profile(config.getoption("profile")), word)
        config.pluginmanager.register(run, RUN_NAME)


@pytest.fixture(scope="session")
def subject(request: pytest.FixtureRequest) -> ContractSubject:
    """The plugin under test."""
    return _required_run(request.config).subject


@pytest.fixture(scope="session")
def profile(request: pytest.FixtureRequest) -> Profile:
    """Sizes of the run."""
    return _required_run(request.config).profile


@pytest.fixture(scope="session")
def histories(request: pytest.FixtureRequest) -> HistoryCounts:
    """Where tests count what their histories reached."""
    return _required_run(request.config).histories


@pytest.fixture
def unmeasured() -> Iterator[None]:
    """Nothing is known of any target's arithmetic, and what a test measures is forgotten after it."""
    with own_cache_folder():
        yield


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report."""
    run, path = _run(session.config), session.config.getoption("report")
    if run is not None and path is not None:
        write_report(make_report(run), path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table and what is behind it."""
    run = _run(config)
    if run is not None:
        terminalreporter.section("contract")
        for line in summary_lines(make_report(run)):
            terminalreporter.write_line(line)


def _run(config: pytest.Config) -> ContractRun | None:
    run = config.pluginmanager.get_plugin(RUN_NAME)
    return run if isinstance(run, ContractRun) else None


def _required_run(config: pytest.Config) -> ContractRun:
    run = _run(config)
    if run is None:
        raise pytest.UsageError("the suite needs a subject: give --subject NAME")
    return run
