"""The clauses are whole, and tests and clauses name each other."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import power_contract
from power_contract.clauses import AREAS, clause, find_clause, load_clauses
from power_contract.subject import FEATURES
from power_core.errors import ConfigError

CLAUSES = load_clauses()
SUITE = Path(power_contract.__file__).parent / "suite"
LEAST = {
    "INFO": 5,
    "ART": 8,
    "DRAFT": 9,
    "VERIFY": 7,
    "TXN": 9,
    "CACHE": 8,
    "SAMPLE": 5,
    "SCHED": 6,
    "LIFE": 7,
    "NUM": 5,
    "NATIVE": 4,
}


def suite_tests():
    """Name, file and clause ids of every test of the suite."""
    for file in sorted(SUITE.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node.name, file.stem, [each for mark in node.decorator_list for each in clause_ids(mark)]


def clause_ids(mark):
    called = isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "clause"
    return [argument.value for argument in mark.args] if called else []


TESTS = list(suite_tests())


@pytest.mark.parametrize("each", CLAUSES.values(), ids=CLAUSES)
def test_a_clause_says_everything(each):
    assert re.fullmatch(rf"{each.area}-\d\d", each.id)
    assert each.area in AREAS
    assert each.text.endswith(".")
    assert each.source
    assert each.look
    assert re.fullmatch(r"\d+\.\d+", each.since)
    assert set(each.needs) <= set(FEATURES)


@pytest.mark.parametrize("each", CLAUSES.values(), ids=CLAUSES)
def test_what_blocks_a_clause_runs_before_it(each):
    order = list(CLAUSES)
    assert all(order.index(blocker) < order.index(each.id) for blocker in each.blocked_by)


def test_every_area_has_its_clauses():
    counts = Counter(each.area for each in CLAUSES.values())
    assert {area: counts[area] >= least for area, least in LEAST.items()} == dict.fromkeys(LEAST, True)
    assert len(CLAUSES) >= 60


def test_each_test_checks_one_clause_of_its_files_area():
    wrong = [
        (name, ids) for name, file, ids in TESTS if len(ids) != 1 or ids[0][:-3].lower() != file.removeprefix("test_")
    ]
    assert wrong == []


def test_each_clause_has_a_test():
    assert set(CLAUSES) - {ids[0] for _, _, ids in TESTS} == set()


def test_an_unknown_clause_is_refused():
    for call in (find_clause, clause):
        with pytest.raises(ConfigError, match="no clause 'TXN-99'"):
            call("TXN-99")
