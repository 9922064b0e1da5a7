"""Two benchmarks, one after the other: the second over the first. Refused unless they measured the same thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Any

import attrs

from power_core.bench.plan import FEWEST_PAIRS
from power_core.bench.records import BenchReport, Sample
from power_core.bench.statistics import CONFIDENCE, Interval, ratio_interval
from power_core.bench.summary import pair_ratios
from power_core.errors import ConfigError
from power_core.strategies import OFF

FILE_NAME = "model"
"""The one setting that may differ: the target is known by its digest."""


@attrs.frozen(kw_only=True)
class VariantComparison:
    """One variant in both reports.

    Attributes:
        first: Its median decode rate in the first report, tokens per second.
        second: In the second.
        ratio: Second over first.
        interval: Of that ratio, the runs of the two reports taken as unpaired; None with too few runs.
        to_off: Ratio of the median paired ratios to plain decoding, which leaves out what slowed or sped up both; None
            for plain decoding.
        to_off_interval: Of that ratio; None with too few runs.
    """

    variant: str
    first: float
    second: float
    ratio: float
    interval: Interval | None
    to_off: float | None
    to_off_interval: Interval | None


@attrs.frozen(kw_only=True)
class Comparison:
    """What two comparable reports say about each other.

    Attributes:
        variants: Those that both have, in the order of the first.
        only_first: Variants that the second lacks.
        only_second: Variants that the first lacks.
        changed: What differs and may differ: software, library builds and guarantees, as ``(what, first, second)``.
        synthetic: The acceptance that both replayed, in words; empty when drafts were the drafters' own.
    """

    variants: tuple[VariantComparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    changed: tuple[tuple[str, str, str], ...]
    synthetic: str
    confidence: float = CONFIDENCE

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return attrs.asdict(self)


def compare_reports(first: BenchReport, second: BenchReport) -> Comparison:
    """Compare two valid reports.

    Raises:
        ConfigError: they measured different things; names the first that differs. ``bench.incomparable``.
    """
    for what, mine, theirs in _must_match(first, second):
        if mine != theirs:
            raise ConfigError(
                f"the reports cannot be compared: {what} is {mine!r} in the first and {theirs!r} in the second",
                field=what,
                value=theirs,
                allowed=str(mine),
                hint="compare runs of the same model, prompts and settings on the same machine",
                code="bench.incomparable",
            )
    mine, theirs = ([variant.name for variant in report.variants] for report in (first, second))
    return Comparison(
        variants=tuple(_compare(first, second, name) for name in mine if name in theirs),
        only_first=tuple(name for name in mine if name not in theirs),
        only_second=tuple(name for name in theirs if name not in mine),
        changed=tuple(_changes(first, second)),
        synthetic="" if first.synthetic is None else first.synthetic.description,
    )


def _must_match(first: BenchReport, second: BenchReport) -> Iterator[tuple[str, Any, Any]]:
    """Yield what both reports must have alike: what was asked, on which files, with which outputs, where."""
    yield "synthetic acceptance", _words(first), _words(second)
    yield "target SHA-256", first.target.sha256, second.target.sha256
    for field in attrs.fields_dict(type(first.workload)):
        yield field, getattr(first.workload, field), getattr(second.workload, field)
    yield "number of prompts", len(first.prompts), len(second.prompts)
    for mine, theirs in zip(first.prompts, second.prompts, strict=True):
        yield f"tokens of prompt {mine.name!r}", mine.tokens_sha256, theirs.tokens_sha256
        yield f"output of off for prompt {mine.name!r}", mine.output_sha256, theirs.output_sha256
    yield "cpu", first.environment.cpu, second.environment.cpu
    yield "cores", first.environment.cores, second.environment.cores
    others = {variant.name: variant for variant in second.variants}
    for variant in first.variants:
        if variant.name in others:
            other = others[variant.name]
            for setting in dict.fromkeys((*variant.settings, *other.settings)):
                if setting != FILE_NAME:
                    yield f"{setting} of {variant.name}", variant.settings.get(setting), other.settings.get(setting)
            yield f"draft SHA-256 of {variant.name}", _draft(variant.draft), _draft(other.draft)
            equal = [report.summary_of(variant.name).prompts_equal_to_off for report in (first, second)]
            yield f"prompts of {variant.name} with the output of off", equal[0], equal[1]


def _words(report: BenchReport) -> str | None:
    return None if report.synthetic is None else report.synthetic.description


def _draft(record: Any) -> str | None:
    return None if record is None else str(record.sha256)


def _changes(first: BenchReport, second: BenchReport) -> Iterator[tuple[str, str, str]]:
    for part in ("packages", "backend"):
        mine, theirs = getattr(first.environment, part), getattr(second.environment, part)
        for name in dict.fromkeys((*mine, *theirs)):
            if mine.get(name) != theirs.get(name):
                yield name, mine.get(name, "-"), theirs.get(name, "-")
    theirs_by_name = {variant.name: variant for variant in second.variants}
    for variant in first.variants:
        other = theirs_by_name.get(variant.name, variant)
        if variant.guarantee != other.guarantee:
            yield f"guarantee of {variant.name}", variant.guarantee, other.guarantee
    for field in ("platform", "python"):
        if getattr(first.environment, field) != getattr(second.environment, field):
            yield field, getattr(first.environment, field), getattr(second.environment, field)


def _compare(first: BenchReport, second: BenchReport, name: str) -> VariantComparison:
    rates = [_rates_by_prompt(report.samples_of(name)) for report in (first, second)]
    medians = [_median_of(groups) for groups in rates]
    to_off = to_off_interval = None
    enough = sum(map(len, rates[0])) >= FEWEST_PAIRS
    if name != OFF:
        ratios = [_ratios_by_prompt(report, name) for report in (first, second)]
        to_off = _median_of(ratios[1]) / _median_of(ratios[0])
        to_off_interval = ratio_interval(ratios[1], ratios[0]) if enough else None
    return VariantComparison(
        variant=name,
        first=medians[0],
        second=medians[1],
        ratio=medians[1] / medians[0],
        interval=ratio_interval(rates[1], rates[0]) if enough else None,
        to_off=to_off,
        to_off_interval=to_off_interval,
    )


def _median_of(groups: Sequence[Sequence[float]]) -> float:
    return median(list(chain.from_iterable(groups)))


def _ratios_by_prompt(report: BenchReport, name: str) -> list[list[float]]:
    return list(pair_ratios(report.samples_of(name), report.samples_of(OFF)).values())


def _rates_by_prompt(samples: Sequence[Sample]) -> list[list[float]]:
    groups: dict[str, list[float]] = {}
    for sample in samples:
        groups.setdefault(sample.prompt, []).append(sample.decode_tokens_per_second)
    return list(groups.values())
