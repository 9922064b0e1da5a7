"""The kill matrix: which clauses each mutant must trip. More may: the examples that are drawn follow the tests' text.

``python contract_tests/tests/kill_matrix.py [MUTANT...]`` runs the whole suite for the named mutants, or for all, and
writes their rows into kill_matrix.toml.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path

import attrs

from mutants.all_mutants import MUTANTS
from mutants.planting import Mutant
from power_contract.clauses import load_clauses
from power_contract.profiles import PROFILES
from power_contract.report import ContractReport
from power_contract.running import run_contract

MATRIX = Path(__file__).with_name("kill_matrix.toml")
HEAD = "# Clauses that each mutant must trip; more may. Written by `python contract_tests/tests/kill_matrix.py`.\n"
PROFILE = attrs.evolve(PROFILES["ci"], every_kind=True)


def run_mutant(mutant: Mutant, clauses: Sequence[str] = (), *, planted: bool = True) -> ContractReport:
    """Run the suite with the fault planted; only some clauses, to the first failure, if given."""
    subject = mutant.subject() if planted else mutant.whole_subject()
    with mutant.plant() if planted else nullcontext(), redirect_stdout(StringIO()):
        return run_contract(subject, profile=PROFILE, clauses=clauses, arguments=["-x"] if clauses else []).report


def outcomes(report: ContractReport) -> dict[str, str]:
    """Return the result of every clause."""
    return {each.clause: each.result for each in report.clauses}


def tripped(report: ContractReport) -> list[str]:
    """Return the clauses that failed."""
    return [clause for clause, result in outcomes(report).items() if result == "failed"]


def read_matrix() -> dict[str, list[str]]:
    """Return the checked-in rows."""
    return tomllib.loads(MATRIX.read_text(encoding="utf-8")) if MATRIX.exists() else {}


def write_matrix(rows: Mapping[str, Sequence[str]]) -> None:
    """Write all rows, in the order of the mutants; a row of a mutant that is gone is dropped."""
    lines = [HEAD]
    for name in MUTANTS:
        if name in rows:
            clauses = ", ".join(f'"{clause}"' for clause in rows[name])
            lines.append(f"{name} = [{clauses}]\n")
    MATRIX.write_text("".join(lines), encoding="utf-8")


def main(names: Sequence[str]) -> int:
    """Find the rows anew; return 1 when a mutant lives, or misses the clause that is there to find it."""
    rows = read_matrix()
    for name in names or MUTANTS:
        rows[name] = tripped(run_mutant(MUTANTS[name]))
        print(f"{name}: {', '.join(rows[name]) or 'LIVES'}", flush=True)
        write_matrix(rows)
    missed = [name for name, mutant in MUTANTS.items() if mutant.aim not in rows.get(name, ())]
    caught = {clause for row in rows.values() for clause in row}
    print(f"not found by the clause that is aimed at: {', '.join(missed) or 'none'}")
    print(f"clauses that nothing trips: {', '.join(set(load_clauses()) - caught) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
