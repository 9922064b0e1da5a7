"""Every clause is tripped by a mutant, every mutant is found by the clause that is aimed at it.

A row of the kill matrix is a lower bound: each of its clauses must fail, others may too.
"""

import pytest

from kill_matrix import Matrix, idle_clauses, missed_mutants, outcomes, read_matrix, run_mutant, tripped
from mutants.all_mutants import MUTANTS
from power_contract.clauses import load_clauses

AIMS = sorted({(mutant.plugin, mutant.kinds, mutant.aim): name for name, mutant in MUTANTS.items()}.values())


def test_every_clause_has_a_mutant_that_is_aimed_at_it():
    aimed = {mutant.aim for mutant in MUTANTS.values()}
    assert aimed == set(load_clauses())


def test_the_matrix_has_a_whole_row_for_every_mutant():
    """A clause or a mutant that is new fails here until the matrix knows it."""
    matrix = read_matrix()
    assert matrix.clauses == list(load_clauses()), "python contract_tests/tests/kill_matrix.py --clauses NEW..."
    assert list(matrix.rows) == list(MUTANTS), "python contract_tests/tests/kill_matrix.py"


def test_every_mutant_is_found_by_the_clause_that_is_aimed_at_it_and_every_clause_finds_one():
    matrix = read_matrix()
    assert (missed_mutants(matrix), idle_clauses(matrix)) == ([], [])


def test_rows_are_kept_for_clauses_that_were_not_judged():
    matrix = Matrix(rows={"one": ["LIFE-01", "TXN-01"]})
    matrix.put("one", ["TXN-02"], ["TXN-01", "TXN-02"])
    matrix.put("two", ["NUM-01"], list(load_clauses()))
    assert matrix.rows == {"one": ["LIFE-01", "TXN-02"], "two": ["NUM-01"]}


@pytest.mark.native
@pytest.mark.parametrize("name", list(MUTANTS))
def test_the_mutant_is_found(name):
    mutant = MUTANTS[name]
    report = run_mutant(mutant, [mutant.aim])
    assert outcomes(report)[mutant.aim] == "failed", mutant.sentence


@pytest.mark.native
@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", AIMS)
def test_without_its_fault_nothing_is_found(name):
    mutant = MUTANTS[name]
    assert outcomes(run_mutant(mutant, [mutant.aim], planted=False))[mutant.aim] == "passed"


@pytest.mark.native
@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", list(MUTANTS))
def test_the_mutant_trips_the_clauses_of_its_row(name):
    assert set(read_matrix().rows[name]) <= set(tripped(run_mutant(MUTANTS[name])))
