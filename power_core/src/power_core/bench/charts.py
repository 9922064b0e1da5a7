"""What reports show as pictures: charts as plain values, drawn by ``drawing`` or written as text bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from power_core.bench.records import BenchReport, Summary
from power_core.strategies import OFF

BAR_CHARACTERS = 40


@attrs.frozen(kw_only=True)
class Point:
    """A value at a place; ``low`` and ``high`` are the ends of its interval where it has one."""

    at: int | str
    value: float
    low: float | None = None
    high: float | None = None


@attrs.frozen(kw_only=True)
class Series:
    """Values that belong together."""

    label: str
    points: tuple[Point, ...]


@attrs.frozen(kw_only=True)
class Chart:
    """One picture. ``title`` says so where acceptance was synthetic."""

    title: str
    at_label: str
    value_label: str
    kind: Literal["lines", "bars"]
    series: tuple[Series, ...]


def make_charts(reports: Mapping[str, BenchReport]) -> list[Chart]:
    """Return acceptance by position, cost curves and throughput of named reports; empty charts are left out."""
    profiles = {report.synthetic.description for report in reports.values() if report.synthetic is not None}
    mark = f" [{'; '.join(sorted(profiles))}]" if profiles else ""
    charts = [
        Chart(
            title=f"Drafts accepted by position{mark}",
            at_label="position in the proposal",
            value_label="share of rounds",
            kind="lines",
            series=tuple(_acceptance(reports)),
        ),
        Chart(
            title=f"One target evaluation by its rows{mark}",
            at_label="rows",
            value_label="milliseconds",
            kind="lines",
            series=tuple(_row_costs(reports)),
        ),
        Chart(
            title=f"One round by its phases{mark}",
            at_label="draft_max",
            value_label="milliseconds",
            kind="lines",
            series=tuple(_round_costs(reports)),
        ),
        Chart(
            title=f"Decode rate{mark}",
            at_label="variant",
            value_label="median tokens per second, from the least to the most",
            kind="bars",
            series=tuple(_rates(reports)),
        ),
        Chart(
            title=f"Speed, plain decoding = 1{mark}",
            at_label="variant",
            value_label="median ratio of pairs",
            kind="bars",
            series=tuple(_ratios(reports)),
        ),
    ]
    return [chart for chart in charts if any(series.points for series in chart.series)]


def to_text(charts: list[Chart]) -> str:
    """Return the charts as lines with bars of ``#``."""
    return "\n".join("".join(_text_lines(chart)) for chart in charts)


def _text_lines(chart: Chart) -> Iterator[str]:
    yield f"{chart.title} ({chart.value_label} by {chart.at_label})\n"
    points = [(series.label, point) for series in chart.series for point in series.points]
    longest = max(point.value for _, point in points)
    names = [f"{label} {point.at}" if label != point.at else label for label, point in points]
    width = max(map(len, names))
    for name, (_, point) in zip(names, points, strict=True):
        bar = "#" * round(BAR_CHARACTERS * point.value / longest) if longest > 0 else ""
        interval = "" if point.low is None else f"  [{point.low:.3f}, {point.high:.3f}]"
        yield f"  {name:<{width}}  {point.value:>9.3f}  {bar}{interval}\n"


def _label(name: str, report: BenchReport, count: int, variant: str) -> str:
    mark = " (synthetic)" if report.synthetic is not None and variant != OFF else ""
    return f"{variant}{mark}" if count == 1 else f"{name}: {variant}{mark}"


def _acceptance(reports: Mapping[str, BenchReport]) -> Iterator[Series]:
    for name, report in reports.items():
        for summary in report.summaries:
            shares = enumerate(summary.accepted_by_position, start=1)
            points = tuple(Point(at=position, value=share) for position, share in shares)
            if points:
                yield Series(label=_label(name, report, len(reports), summary.variant), points=points)


def _row_costs(reports: Mapping[str, BenchReport]) -> Iterator[Series]:
    for name, report in reports.items():
        if report.row_costs is not None:
            points = tuple(Point(at=cost.rows, value=cost.median_ns / 1e6) for cost in report.row_costs.costs)
            yield Series(label="target" if len(reports) == 1 else name, points=points)


def _round_costs(reports: Mapping[str, BenchReport]) -> Iterator[Series]:
    for name, report in reports.items():
        widths = {variant.name: variant.draft_max for variant in report.variants}
        strategies = {variant.name: f"{variant.strategy} {variant.scheduler}" for variant in report.variants}
        for strategy in dict.fromkeys(strategies.values()):
            mine = [summary for summary in report.summaries if strategies[summary.variant] == strategy]
            for phase in ("draft", "verify"):
                points = tuple(
                    Point(at=widths[summary.variant], value=_per_round_ms(summary, phase))
                    for summary in sorted(mine, key=lambda summary: widths[summary.variant])
                    if summary.variant != OFF or phase == "verify"
                )
                if points:
                    label = _label(name, report, len(reports), strategy.removesuffix(" fixed"))
                    yield Series(label=f"{label}, {phase}", points=points)


def _per_round_ms(summary: Summary, phase: str) -> float:
    return summary.phases_ns[phase] / summary.rounds / 1e6 if summary.rounds else 0.0


def _rates(reports: Mapping[str, BenchReport]) -> Iterator[Series]:
    for name, report in reports.items():
        for summary in report.summaries:
            label = _label(name, report, len(reports), summary.variant)
            yield Series(
                label=label,
                points=(
                    Point(
                        at=label,
                        value=summary.median_decode_tokens_per_second,
                        low=summary.minimum_decode_tokens_per_second,
                        high=summary.maximum_decode_tokens_per_second,
                    ),
                ),
            )


def _ratios(reports: Mapping[str, BenchReport]) -> Iterator[Series]:
    for name, report in reports.items():
        for summary in report.summaries:
            if summary.ratio is not None:
                label = _label(name, report, len(reports), summary.variant)
                point = Point(at=label, value=summary.ratio.median, low=summary.ratio.low, high=summary.ratio.high)
                yield Series(label=label, points=(point,))
