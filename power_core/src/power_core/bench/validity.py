"""Which runs are refused: a number that proves nothing is not reported. Source: power_reference.md section 6.5."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import attrs

from power_core.bench.gates import judge
from power_core.bench.measures import TokenTimes, decode_rate, end_to_end_rate
from power_core.bench.records import BenchReport, Sample, VariantRecord
from power_core.bench.summary import summarise
from power_core.errors import BenchError, Cancelled
from power_core.report import GenerationResult
from power_core.strategies import OFF

OWN_SETTINGS = ("draft_max", "drafter", "scheduler", "snapshots", "verify_rows", "verify_shape")
"""What belongs to a way of drafting; everything else has to be in force alike in every session."""

TOLERANCE = 1e-9


def require_valid_run(where: str, result: GenerationResult, times: TokenTimes, max_tokens: int) -> None:
    """Refuse a run that was cancelled, ended early or has impossible times.

    Raises:
        Cancelled: it was cancelled.
        BenchError: rule ``ended_early``, ``tokens`` or ``times``.
    """
    if result.finish_reason == "cancelled":
        raise Cancelled(committed_tokens=len(result.tokens))
    if result.finish_reason != "length":
        raise BenchError(
            f"{where}: ended with {result.finish_reason} after {len(result.tokens)} of {max_tokens} tokens; every run "
            "has to reach its length",
            rule="ended_early",
            hint="lower --max-tokens, or leave this prompt out",
        )
    if not len(result.tokens) == result.report.emitted_tokens == max_tokens:
        raise BenchError(
            f"{where}: {len(result.tokens)} tokens, counted {result.report.emitted_tokens}, expected {max_tokens}",
            rule="tokens",
        )
    _require_times(where, times)


def _require_times(where: str, times: TokenTimes) -> None:
    if not 0 < times.first_token_ns < times.last_token_ns <= times.total_ns:
        raise BenchError(
            f"{where}: first token after {times.first_token_ns} ns, last after {times.last_token_ns} ns, result after "
            f"{times.total_ns} ns; expected these to grow",
            rule="times",
        )


def _require_counters(where: str, sample: Sample) -> None:
    identities = {
        "tokens = 1 + verified": (sample.tokens, 1 + sample.verified_tokens),
        "verified = accepted + rounds": (sample.verified_tokens, sample.accepted_tokens + sample.rounds),
        "rounds by accepted prefix": (sum(sample.accepted_histogram.values()), sample.rounds),
        "rounds by drafts": (sum(sample.drafted_histogram.values()), sample.rounds),
        "accepted by prefix": (_weighted(sample.accepted_histogram), sample.accepted_tokens),
        "drafted by drafts": (_weighted(sample.drafted_histogram), sample.drafted_tokens),
    }
    for name, (found, expected) in identities.items():
        if found != expected:
            raise BenchError(
                f"{where}: the counters contradict each other: {name} gives {found} and {expected}",
                rule="counters",
                hint="report this: a counter of the session is wrong",
            )


def _weighted(histogram: dict[int, int]) -> int:
    return sum(length * count for length, count in histogram.items())


def require_same_settings(records: Iterable[VariantRecord]) -> None:
    """Refuse sessions that differ in more than their way of drafting: their runs would be no pairs.

    Raises:
        BenchError: rule ``settings``.
    """
    opened = list(records)
    for record in opened[1:]:
        for name in dict.fromkeys((*opened[0].settings, *record.settings)):
            mine, theirs = record.settings.get(name), opened[0].settings.get(name)
            if mine != theirs and name not in OWN_SETTINGS:
                raise BenchError(
                    f"{record.name} runs with {name} {mine!r}, {opened[0].name} with {theirs!r}; pairs need the same",
                    rule="settings",
                    hint=f"give --{name.replace('_', '-')} so that all strategies can have it",
                )


def require_same_output(first: Sample | None, sample: Sample) -> None:
    """Refuse a variant that does not repeat itself.

    Raises:
        BenchError: rule ``not_repeatable``.
    """
    if first is not None and first.output_sha256 != sample.output_sha256:
        raise BenchError(
            f"{sample.variant} wrote another output for {sample.prompt!r} in repeat {sample.repeat} than in repeat "
            f"{first.repeat}; nothing can be compared with that",
            rule="not_repeatable",
            hint="use exact arithmetic and a fixed seed; run `power doctor`",
        )


def require_valid_report(report: BenchReport) -> None:
    """Refuse a report whose runs are incomplete, or whose figures do not follow from its samples.

    Raises:
        BenchError: rule ``pairing``, ``tokens``, ``times``, ``counters``, ``rates``, ``not_repeatable``, ``outputs``,
            ``row_costs``, ``summaries`` or ``gates``.
    """
    _require_pairs(report)
    firsts: dict[tuple[str, str], Sample] = {}
    for sample in report.samples:
        require_valid_sample(sample, report.workload.max_tokens)
        require_same_output(firsts.setdefault((sample.variant, sample.prompt), sample), sample)
    for prompt in report.prompts:
        if firsts[OFF, prompt.name].output_sha256 != prompt.output_sha256:
            raise BenchError(f"the output of {prompt.name!r} is not the one of its samples", rule="outputs")
    for cost in () if report.row_costs is None else report.row_costs.costs:
        if cost.median_ns != round(median(cost.samples_ns)):
            raise BenchError(f"the cost of {cost.rows} rows is not the median of its samples", rule="row_costs")
    summaries = summarise(report.samples)
    if not _close(_plain(summaries), _plain(report.summaries)):
        raise BenchError("the summaries do not follow from the samples", rule="summaries")
    gates = judge(report.required, summaries, len(report.prompts))
    if not _close(_plain(gates), _plain(report.gates)) or report.passed != all(gate.passed for gate in gates):
        raise BenchError("the gates do not follow from the samples", rule="gates")


def _require_pairs(report: BenchReport) -> None:
    names = [variant.name for variant in report.variants]
    expected = Counter(
        (name, prompt.name, repeat)
        for name in names
        for prompt in report.prompts
        for repeat in range(report.workload.repeats)
    )
    found = Counter((sample.variant, sample.prompt, sample.repeat) for sample in report.samples)
    if found != expected or OFF not in names or max(expected.values(), default=0) != 1:
        odd = [*(found - expected), *(expected - found)][:3]
        raise BenchError(
            f"the runs are no complete pairs with `off`; missing, foreign or there twice: {odd!r}", rule="pairing"
        )


def require_valid_sample(sample: Sample, max_tokens: int) -> None:
    """Refuse a sample with a wrong number of tokens, impossible times, counters or rates that contradict the rest.

    Raises:
        BenchError: rule ``tokens``, ``times``, ``counters`` or ``rates``.
    """
    where = f"{sample.variant}, {sample.prompt!r}, repeat {sample.repeat}"
    if sample.tokens != max_tokens or sample.tokens < 2:
        raise BenchError(f"{where}: {sample.tokens} tokens, expected {max_tokens}, at least 2", rule="tokens")
    _require_times(
        where,
        TokenTimes(
            first_token_ns=sample.first_token_ns,
            last_token_ns=sample.last_token_ns,
            total_ns=sample.total_ns,
            compute_ns=sample.compute_ns,
        ),
    )
    _require_counters(where, sample)
    rates = [
        decode_rate(sample.tokens, sample.first_token_ns, sample.last_token_ns),
        end_to_end_rate(sample.tokens, sample.total_ns),
    ]
    if not _close(rates, [sample.decode_tokens_per_second, sample.end_to_end_tokens_per_second]):
        raise BenchError(f"{where}: the rates do not follow from the times", rule="rates")


def _plain(values: Sequence[Any]) -> list[Any]:
    return [attrs.asdict(value) for value in values]


def _close(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, dict):
        return mine.keys() == theirs.keys() and all(_close(value, theirs[key]) for key, value in mine.items())
    if isinstance(mine, list | tuple):
        return len(mine) == len(theirs) and all(map(_close, mine, theirs))
    if isinstance(mine, float) and isinstance(theirs, float):
        return abs(mine - theirs) <= TOLERANCE * max(abs(theirs), 1.0)
    return bool(mine == theirs)
