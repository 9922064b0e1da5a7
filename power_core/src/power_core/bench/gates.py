"""What had to be reached, and what was. Equality with plain decoding is always a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from power_core.bench.plan import Gates
from power_core.bench.records import GateResult, Summary
from power_core.strategies import OFF


def judge(gates: Gates, summaries: Sequence[Summary], n_prompts: int) -> tuple[GateResult, ...]:
    """Return the results of every gate for every variant but plain decoding."""
    return tuple(
        result for summary in summaries if summary.variant != OFF for result in _judge_one(gates, summary, n_prompts)
    )


def _judge_one(gates: Gates, summary: Summary, n_prompts: int) -> Iterator[GateResult]:
    assert summary.ratio is not None
    equal = summary.prompts_equal_to_off
    yield GateResult(
        gate="equal_to_off",
        variant=summary.variant,
        required=float(n_prompts),
        observed=float(equal),
        passed=equal == n_prompts,
    )
    if gates.rate is not None:
        observed = summary.median_decode_tokens_per_second
        yield _at_least("rate", summary.variant, gates.rate, observed)
    if gates.each_rate is not None:
        observed = summary.minimum_decode_tokens_per_second
        yield _at_least("each_rate", summary.variant, gates.each_rate, observed)
    if gates.ratio is not None:
        assert summary.ratio.high is not None, "the plan refuses this gate where there are too few pairs"
        yield _at_least("ratio", summary.variant, gates.ratio, summary.ratio.high)
    if gates.each_ratio is not None:
        yield _at_least("each_ratio", summary.variant, gates.each_ratio, summary.ratio.minimum)


def _at_least(gate: str, variant: str, required: float, observed: float) -> GateResult:
    return GateResult(
        gate=gate,  # type: ignore[arg-type]
        variant=variant,
        required=required,
        observed=observed,
        passed=observed >= required,
    )
