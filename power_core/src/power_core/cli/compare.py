"""``power compare``: two benchmark reports, the second over the first."""

from __future__ import annotations

from pathlib import Path

from power_core.bench.comparison import compare_reports
from power_core.bench.files import read_report
from power_core.cli.bench_view import format_comparison
from power_core.cli.console import EXIT_OK, write_out
from power_core.json_text import json_text


def run_compare(first: Path, second: Path, *, as_json: bool) -> int:
    """Print the comparison.

    Raises:
        ConfigError: a file is no report, or the reports cannot be compared.
        BenchError: a report's figures do not follow from its samples.
    """
    comparison = compare_reports(read_report(first), read_report(second))
    write_out(json_text(comparison.to_dict(), indent=1) if as_json else format_comparison(comparison))
    return EXIT_OK
