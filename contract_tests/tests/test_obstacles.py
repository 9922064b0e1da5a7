"""What cannot be judged is said at once: in a sentence, with an exit status of its own, in a report that is valid."""

import json
import os
import subprocess
import sys

import attrs
import jsonschema
import pytest

from power_contract import obstacles
from power_contract.obstacles import find_obstacle
from power_contract.report import schema_text
from power_contract.running import run_contract
from power_contract.subject import ContractSubject, find_subject
from power_core.errors import ConfigError, LibraryNotFoundError


def failing_draft(folder, kind):
    raise ValueError(f"no {kind} draft today")


def subject_of(plugin, **changes):
    return attrs.evolve(find_subject(f"power_{plugin}.contract:SUBJECT"), **changes)


def test_a_plugin_that_does_not_load_is_no_obstacle():
    """INFO-01 says so."""
    names = dict.fromkeys(("name", "strategy", "plugin"), "nowhere.plugin")
    assert find_obstacle(ContractSubject(**names, features=frozenset(), target_kinds=("hybrid",))) is None


def test_a_draft_that_cannot_be_built():
    found = find_obstacle(subject_of("dspark", build_draft=failing_draft))
    assert found is not None
    assert "build_draft of the subject" in found
    assert "ValueError: no hybrid draft today" in found


def test_a_target_that_cannot_be_opened_and_what_to_do(monkeypatch):
    class NoLibrary:
        def target(self, kind):
            return kind

        def draft_header(self, subject, kind):
            return None

        def model(self, subject, kind, *, load_nextn):
            raise LibraryNotFoundError("there is no library", library="", hint="build it")

    monkeypatch.setattr(obstacles, "materials", NoLibrary)
    assert (
        find_obstacle(subject_of("ngram")) == "the tiny hybrid target cannot be opened: there is no library; build it"
    )


def test_a_run_behind_an_obstacle_judges_nothing():
    finished = run_contract(subject_of("dspark", build_draft=failing_draft), quiet=True)
    assert finished.status == 1
    assert finished.report.blocked
    assert not finished.report.passed
    assert finished.report.problems == (finished.obstacle,)
    assert {each.result for each in finished.report.clauses} == {"blocked"}


def test_the_program_says_so_and_writes_a_valid_report(tmp_path):
    report = tmp_path / "report.json"
    changes = {
        "POWER_NATIVE_LIBRARY": str(tmp_path / "nothing.so"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = ["run", "power_ngram.contract:SUBJECT", "-k", "LIFE", "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "power_contract.cli", *command],
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "error[contract.blocked]: power-ngram could not be judged" in done.stderr
    assert "nothing.so" in done.stderr
    assert "contract NOT JUDGED" in done.stdout
    raw = json.loads(report.read_text(encoding="utf-8"))
    jsonschema.validate(raw, json.loads(schema_text()))
    assert "nothing.so" in raw["problems"][0]


def test_a_function_that_makes_no_subject_is_named(monkeypatch):
    monkeypatch.setattr(obstacles, "failing", lambda: 1 / 0, raising=False)
    with pytest.raises(ConfigError, match=r"no contract subject 'power_contract.obstacles:failing': ZeroDivisionError"):
        find_subject("power_contract.obstacles:failing")
