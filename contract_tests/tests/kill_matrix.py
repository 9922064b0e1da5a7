"""The kill matrix: which clauses each mutant trips, found by whole runs of the suite, clause by clause and row by row.

``python contract_tests/tests/kill_matrix.py`` finds the rows that are missing, ``MUTANT...`` finds these anew and
``--all`` all of them. ``--clauses ID...`` runs these clauses alone, for all mutants: for clauses that are new or have
changed. ``--jobs N`` works on several mutants at once. A row is a lower bound: each of its clauses must fail, others
may. Which examples are drawn follows from the text of the tests and of the modules around them, so a clause may fail by
luck of the draw: ``MUTANT... --narrow`` keeps of a row what fails again.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, redirect_stdout
from io import StringIO
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import attrs

from mutants.all_mutants import MUTANTS
from mutants.planting import Mutant
from power_contract.clauses import load_clauses
from power_contract.profiles import PROFILES
from power_contract.report import ContractReport
from power_contract.running import run_contract

MATRIX = Path(__file__).with_name("kill_matrix.toml")
HEAD = "# Clauses that each mutant trips. Written by `python contract_tests/tests/kill_matrix.py`.\n"
PROFILE = attrs.evolve(PROFILES["ci"], every_kind=True, shrinking_seconds=0)


@attrs.define(kw_only=True)
class Matrix:
    """What is known.

    Attributes:
        clauses: Every row was found with all of these.
        rows: Clauses that failed, by mutant.
    """

    clauses: list[str] = attrs.field(factory=lambda: list(load_clauses()))
    rows: dict[str, list[str]] = attrs.field(factory=dict)

    def put(self, name: str, found: Sequence[str], judged: Sequence[str]) -> None:
        """Set what is known of a mutant for the clauses that were judged."""
        kept = {*found, *(clause for clause in self.rows.get(name, ()) if clause not in judged)}
        self.rows[name] = [clause for clause in load_clauses() if clause in kept]

    def write(self) -> None:
        """Write all rows, in the order of the mutants; what is gone is dropped."""
        lines = [HEAD, f"clauses = {_listed([each for each in self.clauses if each in load_clauses()])}\n\n[rows]\n"]
        lines += [f"{name} = {_listed(self.rows[name])}\n" for name in MUTANTS if name in self.rows]
        MATRIX.write_text("".join(lines), encoding="utf-8")


def read_matrix() -> Matrix:
    """Return what is checked in."""
    return Matrix(**tomllib.loads(MATRIX.read_text(encoding="utf-8"))) if MATRIX.exists() else Matrix()


def run_mutant(
    mutant: Mutant, clauses: Sequence[str] = (), *, planted: bool = True, first: bool = True
) -> ContractReport:
    """Run the suite with the fault planted; only some clauses, to the first failure or all of them, if given."""
    subject = mutant.subject() if planted else mutant.whole_subject()
    arguments = ["-x"] if clauses and first else []
    with mutant.plant() if planted else nullcontext(), redirect_stdout(StringIO()):
        return run_contract(subject, profile=PROFILE, clauses=clauses, arguments=arguments).report


def outcomes(report: ContractReport) -> dict[str, str]:
    """Return the result of every clause."""
    return {each.clause: each.result for each in report.clauses}


def tripped(report: ContractReport) -> list[str]:
    """Return the clauses that failed."""
    return [clause for clause, result in outcomes(report).items() if result == "failed"]


def find_row(name: str, clauses: Sequence[str]) -> tuple[str, list[str]]:
    """Return a mutant and what it trips: of these clauses, or of all."""
    report = run_mutant(MUTANTS[name], clauses, first=False)
    if not {"passed", "failed"}.intersection(outcomes(report).values()):
        raise SystemExit(f"{name} was not judged: {'; '.join(report.problems) or 'the suite did not run'}")
    return name, tripped(report)


def missed_mutants(matrix: Matrix) -> list[str]:
    """Return the mutants without a row, and those whose row lacks the clause that is there to find them."""
    return [name for name, mutant in MUTANTS.items() if mutant.aim not in matrix.rows.get(name, ())]


def idle_clauses(matrix: Matrix) -> list[str]:
    """Return the clauses that no mutant trips."""
    caught = {clause for row in matrix.rows.values() for clause in row}
    return [clause for clause in load_clauses() if clause not in caught]


def main(arguments: Sequence[str]) -> int:
    """Find rows; return 1 when a mutant is missed or a clause is idle."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mutants", nargs="*", metavar="MUTANT")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--clauses", nargs="+", default=[], metavar="ID")
    parser.add_argument("--narrow", action="store_true", help="keep of the rows that there are what is found again")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, of one thread each")
    options = parser.parse_args(arguments)
    matrix = Matrix() if options.all else read_matrix()
    missing = [name for name in MUTANTS if name not in matrix.rows]
    names = options.mutants or list(matrix.rows if options.clauses else missing)
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as workers:
        for name, found in workers.map(find_row, names, repeat(options.clauses)):
            kept = [clause for clause in found if not options.narrow or clause in matrix.rows.get(name, found)]
            matrix.put(name, kept, options.clauses or list(load_clauses()))
            print(f"{name}: {', '.join(kept) or 'nothing'}", flush=True)
            matrix.write()
    if not options.mutants:
        matrix.clauses = [clause for clause in load_clauses() if clause in {*matrix.clauses, *options.clauses}]
        matrix.write()
    missed, idle = missed_mutants(matrix), idle_clauses(matrix)
    print(f"mutants that are not found by the clause that is aimed at them: {', '.join(missed) or 'none'}")
    print(f"clauses that nothing trips: {', '.join(idle) or 'none'}")
    return 1 if missed or idle else 0


def _listed(clauses: Sequence[str]) -> str:
    quoted = ", ".join(f'"{clause}"' for clause in clauses)
    return f"[{quoted}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
