"""Settings of every test run: deterministic Hypothesis, and a line that names what was not run here.

power_core is imported first: pytest names a test ``power_core.tests.test_x`` after its folders and would otherwise put
the folder ``power_core`` in the place of the package.
"""

from collections import Counter

import pytest
from hypothesis import settings

import power_core  # noqa: F401

NOT_BY_DEFAULT = ("gpu", "real_model", "full")
NOT_RUN = pytest.StashKey[Counter[str]]()

settings.register_profile("power", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("power")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOT_RUN] = Counter()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        marker = next((name for name in NOT_BY_DEFAULT if item.get_closest_marker(name)), None)
        if marker is not None:
            item.config.stash[NOT_RUN][marker] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = sorted(config.stash[NOT_RUN].items())
    if counts:
        terminalreporter.write_line("not run here: " + ", ".join(f"{name} ({count})" for name, count in counts))
