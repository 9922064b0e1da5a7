"""The program ``power-contract``: list the clauses, explain one, run them for plugins."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from power_contract.clauses import AREAS, find_clause, load_clauses
from power_contract.profiles import Profile, find_profile
from power_contract.report import ContractReport, schema_text, write_report
from power_contract.running import FinishedRun, run_contract
from power_contract.subject import find_subject
from power_contract.summary import table_lines, total_line
from power_core.cli.console import EXIT_OK, EXIT_USAGE, print_error, run_guarded, write_out

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
EXIT_BROKEN = 1
EXIT_BLOCKED = 3

app = typer.Typer(
    name="power-contract",
    help="Check that a drafter's plugin holds the contract.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status.

    0, 1 for a broken contract, 2 for the user's mistakes, 3 when a plugin could not be judged.
    """
    try:
        status = app(args=arguments, prog_name="power-contract", standalone_mode=False)
    except USAGE_ERROR as error:
        if error.format_message():
            print_error("config.usage", error.format_message(), "see `power-contract --help`")
        return EXIT_USAGE
    return status if isinstance(status, int) else EXIT_OK


@app.command("list")
def list_clauses(
    area: Annotated[str | None, typer.Argument(help="Only this area.", show_default=False)] = None,
) -> int:
    """List the clauses."""
    chosen = [each for each in load_clauses().values() if area is None or each.area == area.upper()]
    if not chosen:
        raise typer.BadParameter(f"there is no area {area!r}, expected one of: {', '.join(AREAS)}")
    return _print(f"{each.id:<10} {each.text}" for each in chosen)


@app.command()
def explain(clause: Annotated[str, typer.Argument(help="Its id, such as LIFE-01.")]) -> int:
    """Show a clause: what it says, where it comes from, where to look when it is broken."""
    return run_guarded(lambda: _explain(clause.upper()), debug=False)


@app.command(epilog="Example: power-contract run power-dspark --profile ci --report report.json")
def run(
    subjects: Annotated[
        list[str], typer.Argument(metavar="SUBJECT...", help="Distributions, or module:attribute.", show_default=False)
    ],
    *,
    profile: Annotated[str, typer.Option(help="ci, contract or explore.")] = "contract",
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; for one subject.")
    ] = None,
    keyword: Annotated[
        str | None, typer.Option("-k", metavar="EXPRESSION", help="Run a part: clause ids or names of tests.")
    ] = None,
    exit_first: Annotated[bool, typer.Option("-x", help="Stop at the first failure.")] = False,
    pdb: Annotated[bool, typer.Option("--pdb", help="Open the debugger at a failure.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of profile explore; drawn when not given.")] = None,
) -> int:
    """Run the contract for plugins; the status is 0 only with no unexplained failure, 3 when one cannot be judged."""
    if report is not None and len(subjects) > 1:
        raise typer.BadParameter(f"--report is for one subject, there are {len(subjects)}")
    arguments = [*(["-k", keyword] if keyword else []), *(["-x"] if exit_first else []), *(["--pdb"] if pdb else [])]
    return run_guarded(lambda: _run_all(subjects, find_profile(profile), arguments, seed, report), debug=False)


@app.command()
def schema() -> int:
    """Print the JSON Schema of what `run --report` writes."""
    return _print(schema_text().splitlines())


def _run_all(subjects: list[str], profile: Profile, arguments: list[str], seed: int | None, path: Path | None) -> int:
    if not profile.derandomized:
        arguments = [*arguments, f"--hypothesis-seed={secrets.randbelow(2**32) if seed is None else seed}"]
    found = [(word, find_subject(word)) for word in subjects]
    runs = [run_contract(subject, profile=profile, word=word, arguments=arguments) for word, subject in found]
    if path is not None:
        write_report(runs[0].report, path)
    if len(runs) > 1:
        _print(_overview([finished.report for finished in runs]))
    return _status(runs)


def _status(runs: list[FinishedRun]) -> int:
    """Return the exit status, after a line for each plugin that could not be judged."""
    blocked = [finished for finished in runs if finished.obstacle is not None]
    for finished in blocked:
        text = f"{finished.report.subject.name} could not be judged: {finished.obstacle}"
        print_error("contract.blocked", text, "repair that first; `power doctor` looks at the native library")
    if blocked:
        return EXIT_BLOCKED
    return EXIT_OK if all(finished.status == 0 for finished in runs) else EXIT_BROKEN


def _overview(reports: list[ContractReport]) -> Iterable[str]:
    yield ""
    yield from table_lines(reports)
    yield from (total_line(report) for report in reports)


def _explain(clause_id: str) -> int:
    found = find_clause(clause_id)
    return _print(
        (
            f"{found.id} ({AREAS[found.area]}, since {found.since})",
            found.text,
            f"source:     {found.source}",
            f"needs:      {', '.join(found.needs) or 'nothing'}",
            f"blocked by: {', '.join(found.blocked_by) or 'nothing'}",
            f"look at:    {found.look}",
        )
    )


def _print(lines: Iterable[str]) -> int:
    write_out("".join(f"{line}\n" for line in lines))
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
