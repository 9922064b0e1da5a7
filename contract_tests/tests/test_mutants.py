"""Every clause is tripped by a mutant, every mutant is found by the clause that is aimed at it.

A row of the kill matrix is a lower bound: each of its clauses must fail, others may too.
"""

import pytest

from kill_matrix import outcomes, read_matrix, run_mutant, tripped
from mutants.all_mutants import MUTANTS
from power_contract.clauses import load_clauses

AIMS = sorted({(mutant.plugin, mutant.kinds, mutant.aim): name for name, mutant in MUTANTS.items()}.values())


def test_every_clause_has_a_mutant_that_is_aimed_at_it():
    aimed = {mutant.aim for mutant in MUTANTS.values()}
    assert aimed == set(load_clauses())


def test_the_matrix_has_a_row_for_every_mutant_with_the_clause_that_is_aimed_at():
    rows = read_matrix()
    assert list(rows) == list(MUTANTS)
    assert [name for name, mutant in MUTANTS.items() if mutant.aim not in rows[name]] == []


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
    assert set(read_matrix()[name]) <= set(tripped(run_mutant(MUTANTS[name])))
