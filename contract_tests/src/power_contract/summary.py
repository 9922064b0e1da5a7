"""The text of one or several reports: a table of areas and subjects, then everything that did not simply pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from power_contract.clauses import AREAS
from power_contract.outcomes import RESULTS
from power_contract.report import ContractReport

LISTED = ("failed", "blocked", "waived", "no test", "not run here")


def summary_lines(report: ContractReport) -> Iterator[str]:
    """Yield the table of one run, what is behind it, and one line that sums it up."""
    yield from table_lines([report])
    yield ""
    for each in report.clauses:
        if each.result in LISTED and not report.blocked:
            yield f"{each.clause} {each.result}{': ' + _first_line(each.detail) if each.detail else ''}"
    yield from report.problems
    for kind, reached in report.histories.items():
        yield f"histories on {kind}: " + ", ".join(f"{name} {count}" for name, count in reached.items())
    yield total_line(report)


def table_lines(reports: Sequence[ContractReport]) -> Iterator[str]:
    """Yield one row per area and one column per subject."""
    heads = [report.subject.name for report in reports]
    cells = [[_cell(report, area) for report in reports] for area in AREAS]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    title = max(len(f"{area} {text}") for area, text in AREAS.items())
    yield _row("", heads, title, widths)
    for (area, text), row in zip(AREAS.items(), cells, strict=True):
        yield _row(f"{area} {text}", row, title, widths)


def total_line(report: ContractReport) -> str:
    """Return how many clauses ran and what became of them."""
    counts = Counter(each.result for each in report.clauses)
    ran = sum(counts[result] for result in ("passed", "failed", "waived"))
    rest = ", ".join(f"{counts[result]} {result}" for result in RESULTS if counts[result])
    verdict = "NOT JUDGED" if report.blocked else "holds" if report.passed else "BROKEN"
    subject = report.subject
    return (
        f"{subject.name} {subject.version}, strategy {subject.strategy}, profile {report.profile}: "
        f"{ran} of {len(report.clauses)} clauses run in {report.seconds:.0f} s; {rest}; contract {verdict}"
        f"{'' if report.whole else ' (a part was run)'}"
    )


def _cell(report: ContractReport, area: str) -> str:
    counts = Counter(each.result for each in report.clauses if each.area == area)
    return ", ".join(f"{counts[result]} {result}" for result in RESULTS if counts[result]) or "-"


def _row(title: str, cells: Sequence[str], title_width: int, widths: Sequence[int]) -> str:
    columns = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return "  ".join((f"{title:<{title_width}}", *columns)).rstrip()


def _first_line(text: str) -> str:
    """Return the line of a failure text that says what is wrong: the first that pytest marks as the error."""
    lines = text.splitlines()
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return next(iter(errors or lines), "")
