"""Tables of benchmarks and comparisons. docs/benchmarking.md says how to read them."""

from __future__ import annotations

from collections.abc import Iterator

from power_core.bench.comparison import Comparison, VariantComparison
from power_core.bench.records import BenchReport, GateResult, Ratio, Summary
from power_core.bench.statistics import Interval
from power_core.cli.table import format_table

BENCH_HEADERS = (
    "VARIANT",
    "TOK/S",
    "LEAST",
    "RATIO TO OFF",
    "INTERVAL",
    "REQUEST TOK/S",
    "ACCEPTED",
    "TOK/PASS",
    "REPLAYS",
    "OWN US/ROUND",
    "PEAK MB",
    "EQUAL TO OFF",
)
COMPARISON_HEADERS = (
    "VARIANT",
    "FIRST TOK/S",
    "SECOND TOK/S",
    "RATIO",
    "INTERVAL",
    "RATIO OF RATIOS TO OFF",
    "INTERVAL",
)
MEGABYTE = 1_000_000
BUSY_LOAD = 0.5


def format_bench(report: BenchReport) -> str:
    """Return what was measured, one line per variant, and what has to be known to read it."""
    rows = [_bench_row(summary, len(report.prompts), report.synthetic is not None) for summary in report.summaries]
    return "".join(f"{line}\n" for line in _head(report)) + format_table(rows, BENCH_HEADERS) + _gates(report.gates)


def format_comparison(comparison: Comparison) -> str:
    """Return one line per variant that both reports have, and what changed between them."""
    rows = [_comparison_row(variant, synthetic=bool(comparison.synthetic)) for variant in comparison.variants]
    lines = [f"{comparison.synthetic}: no drafter's own acceptance"] if comparison.synthetic else []
    tail = [f"only in the first: {name}" for name in comparison.only_first]
    tail += [f"only in the second: {name}" for name in comparison.only_second]
    tail += [f"changed: {name}: {first} -> {second}" for name, first, second in comparison.changed]
    return (
        "".join(f"{line}\n" for line in lines)
        + format_table(rows, COMPARISON_HEADERS)
        + "".join(f"{line}\n" for line in tail)
    )


def _head(report: BenchReport) -> Iterator[str]:
    workload, environment = report.workload, report.environment
    if report.synthetic is not None:
        yield f"{report.synthetic.description}: no drafter's own acceptance, for capacity planning only"
    yield f"target {report.target.file}, SHA-256 {report.target.sha256}"
    yield (
        f"prompts {len(report.prompts)}, repeats {workload.repeats}, tokens {workload.max_tokens}, "
        f"sessions {workload.sessions}, arithmetic {report.variants[0].settings.get('arithmetic')}"
    )
    load = environment.load_before[0] if environment.load_before else 0.0
    busy = f", load {load:.2f} before the start: other work was running" if load >= BUSY_LOAD else ""
    yield f"{environment.cpu}, {environment.cores} cores, {report.variants[0].settings.get('threads')} threads{busy}"
    events = [event for variant in report.variants for event in variant.events]
    for note in dict.fromkeys(str(event["detail"]) for event in events if "detail" in event):
        yield f"note: {note}"
    yield ""


def _bench_row(summary: Summary, n_prompts: int, synthetic: bool) -> tuple[str, ...]:
    drafted = summary.drafted_tokens > 0
    return (
        _name(summary.variant, synthetic=synthetic and summary.ratio is not None),
        f"{summary.median_decode_tokens_per_second:.1f}",
        f"{summary.minimum_decode_tokens_per_second:.1f}",
        "1" if summary.ratio is None else f"{summary.ratio.median:.3f}",
        "-" if summary.ratio is None else _ratio_interval(summary.ratio),
        f"{summary.request_wide_tokens_per_second:.1f}",
        f"{summary.acceptance_rate:.1%}" if drafted else "-",
        f"{summary.tokens_per_target_pass:.2f}",
        str(summary.replays),
        f"{summary.own_ns_per_round / 1e3:.1f}",
        "-" if summary.peak_bytes is None else f"{summary.peak_bytes / MEGABYTE:.0f}",
        f"{summary.prompts_equal_to_off} of {n_prompts}",
    )


def _comparison_row(variant: VariantComparison, *, synthetic: bool) -> tuple[str, ...]:
    return (
        _name(variant.variant, synthetic=synthetic and variant.to_off is not None),
        f"{variant.first:.1f}",
        f"{variant.second:.1f}",
        f"{variant.ratio:.3f}",
        _interval(variant.interval),
        "-" if variant.to_off is None else f"{variant.to_off:.3f}",
        _interval(variant.to_off_interval),
    )


def _name(variant: str, *, synthetic: bool) -> str:
    return f"{variant} (synthetic)" if synthetic else variant


def _ratio_interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"none, {ratio.pairs} pairs"
    return _interval(Interval(low=ratio.low, high=ratio.high))


def _interval(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"


def _gates(gates: tuple[GateResult, ...]) -> str:
    failed = [gate for gate in gates if not gate.passed]
    lines = [
        f"gate failed: {gate.variant}: {gate.gate} is {gate.observed:g}, expected at least {gate.required:g}"
        for gate in failed
    ]
    passed = len(gates) - len(failed)
    return "".join(f"{line}\n" for line in ("", f"{passed} of {len(gates)} gates passed", *lines))
