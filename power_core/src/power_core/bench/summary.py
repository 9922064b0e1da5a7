"""From samples to figures. Recomputable: the same samples always give the same summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from power_core.bench.plan import FEWEST_PAIRS
from power_core.bench.records import Ratio, Sample, Summary
from power_core.bench.statistics import CONFIDENCE, median_interval
from power_core.strategies import OFF


def summarise(samples: Sequence[Sample]) -> tuple[Summary, ...]:
    """Return one summary per variant, in the order in which they first ran."""
    by_variant: dict[str, list[Sample]] = {}
    for sample in samples:
        by_variant.setdefault(sample.variant, []).append(sample)
    plain = by_variant[OFF]
    return tuple(_summary(name, mine, plain) for name, mine in by_variant.items())


def pair_ratios(mine: Sequence[Sample], plain: Sequence[Sample]) -> dict[str, list[float]]:
    """Return by prompt the ratios of decode rates, each of two runs of the same prompt in the same repeat."""
    rates = {(sample.prompt, sample.repeat): sample.decode_tokens_per_second for sample in plain}
    ratios: dict[str, list[float]] = {}
    for sample in mine:
        ratio = sample.decode_tokens_per_second / rates[sample.prompt, sample.repeat]
        ratios.setdefault(sample.prompt, []).append(ratio)
    return ratios


def accepted_by_position(samples: Iterable[Sample]) -> tuple[float, ...]:
    """Return for each draft of a round the share of the rounds that had it in which it was accepted."""
    drafted: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    for sample in samples:
        drafted.update(sample.drafted_histogram)
        accepted.update(sample.accepted_histogram)
    return tuple(
        _at_least(accepted, position) / _at_least(drafted, position)
        for position in range(1, max(drafted, default=0) + 1)
    )


def _at_least(histogram: Mapping[int, int], least: int) -> int:
    return sum(count for length, count in histogram.items() if length >= least)


def _summary(name: str, mine: Sequence[Sample], plain: Sequence[Sample]) -> Summary:
    rates = [sample.decode_tokens_per_second for sample in mine]
    rounds, drafted = _total(mine, "rounds"), _total(mine, "drafted_tokens")
    accepted = _total(mine, "accepted_tokens")
    own_ns = sum(sample.last_token_ns - sample.first_token_ns - sample.compute_ns for sample in mine)
    peaks = [sample.peak_bytes for sample in mine if sample.peak_bytes is not None]
    outputs = {sample.prompt: sample.output_sha256 for sample in plain}
    equal = {sample.prompt for sample in mine} - {
        sample.prompt for sample in mine if sample.output_sha256 != outputs[sample.prompt]
    }
    return Summary(
        variant=name,
        samples=len(mine),
        tokens=_total(mine, "tokens"),
        median_decode_tokens_per_second=median(rates),
        minimum_decode_tokens_per_second=min(rates),
        maximum_decode_tokens_per_second=max(rates),
        median_end_to_end_tokens_per_second=median([sample.end_to_end_tokens_per_second for sample in mine]),
        request_wide_tokens_per_second=_request_wide(mine),
        rounds=rounds,
        target_calls=_total(mine, "target_calls"),
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        replays=_total(mine, "replays"),
        copied_bytes=_total(mine, "copied_bytes"),
        acceptance_rate=accepted / drafted if drafted else 0.0,
        tokens_per_target_pass=_total(mine, "verified_tokens") / rounds if rounds else 0.0,
        accepted_by_position=accepted_by_position(mine),
        own_ns_per_round=own_ns / rounds if rounds else 0.0,
        phases_ns=_phases(mine),
        peak_bytes=max(peaks) if peaks else None,
        prompts_equal_to_off=len(equal),
        ratio=None if name == OFF else _ratio(mine, plain),
    )


def _ratio(mine: Sequence[Sample], plain: Sequence[Sample]) -> Ratio:
    groups = list(pair_ratios(mine, plain).values())
    ratios = [ratio for group in groups for ratio in group]
    interval = median_interval(groups) if len(ratios) >= FEWEST_PAIRS else None
    medians = [median([sample.decode_tokens_per_second for sample in samples]) for samples in (mine, plain)]
    return Ratio(
        pairs=len(ratios),
        median=median(ratios),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        confidence=CONFIDENCE,
        minimum=min(ratios),
        of_medians=medians[0] / medians[1],
        request_wide=_request_wide(mine) / _request_wide(plain),
    )


def _request_wide(samples: Sequence[Sample]) -> float:
    return _total(samples, "tokens") * 1e9 / _total(samples, "total_ns")


def _phases(samples: Sequence[Sample]) -> dict[str, int]:
    return {name: sum(sample.phases_ns[name] for sample in samples) for name in samples[0].phases_ns}


def _total(samples: Iterable[Sample], field: str) -> int:
    return sum(getattr(sample, field) for sample in samples)
