"""Where an output begins to repeat itself: loops are easy to draft and say little about a drafter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from power_core import open_session
from power_core.bench.plan import BenchPlan, Prompt, Variant
from power_core.plugins.manager import PowerPluginManager, load_plugins

LEAST_LOOP_TOKENS = 64


def new_tokens(tokens: Sequence[int]) -> int:
    """Return how many tokens an output has before it starts to repeat itself to its end; all where it never does.

    An output ends in a loop with a period of p tokens when, from some place to its end, each token is the one p places
    before it. This end, first turn included, must have two whole turns and ``LEAST_LOOP_TOKENS`` tokens. The first turn
    is new text; what follows it is repetition. Of several periods the one that repeats first counts.
    """
    starts = (_repeats_from(tokens, period) for period in range(1, len(tokens) // 2 + 1))
    return min((start for start in starts if start is not None), default=len(tokens))


def _repeats_from(tokens: Sequence[int], period: int) -> int | None:
    """Return the first place from which every token is the one a period before; None where too few are."""
    place = len(tokens)
    while place > period and tokens[place - 1] == tokens[place - 1 - period]:
        place -= 1
    turns_tokens = len(tokens) - place + period
    return place if turns_tokens >= max(2 * period, LEAST_LOOP_TOKENS) else None


@attrs.frozen(kw_only=True)
class Counts:
    """What one variant did on all prompts, each up to its first repeated token."""

    rounds: int
    drafted_tokens: int
    accepted_tokens: int
    acceptance_rate: float
    tokens_per_target_pass: float


def measure_without_loops(plan: BenchPlan) -> tuple[dict[str, int], dict[str, Counts]]:
    """Return the number of tokens before repetition by prompt, and what every variant did on them."""
    plugins = load_plugins()
    lengths = {prompt.name: plan.request.max_tokens for prompt in plan.prompts}
    plain, _ = _run(plan.plain, plan.prompts, lengths, plugins)
    lengths = {name: new_tokens(output) for name, output in plain.items()}
    counts = {}
    for variant in plan.variants:
        outputs, counts[variant.name] = _run(variant, plan.prompts, lengths, plugins)
        differing = [name for name, output in outputs.items() if output != plain[name][: lengths[name]]]
        if differing:
            raise SystemExit(f"{variant.name} does not write what plain decoding writes for {differing}")
    return lengths, counts


def _run(
    variant: Variant, prompts: Sequence[Prompt], lengths: Mapping[str, int], plugins: PowerPluginManager
) -> tuple[dict[str, list[int]], Counts]:
    with open_session(variant.settings, plugins=plugins) as session:
        results = {each.name: session.generate(each.text, max_tokens=lengths[each.name]).result() for each in prompts}
    reports = [result.report for result in results.values()]
    rounds, drafted, accepted, verified = (
        sum(getattr(report, field) for report in reports)
        for field in ("rounds", "drafted_tokens", "accepted_tokens", "verified_tokens")
    )
    counts = Counts(
        rounds=rounds,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        acceptance_rate=accepted / drafted if drafted else 0.0,
        tokens_per_target_pass=verified / rounds if rounds else 0.0,
    )
    return {name: list(result.tokens) for name, result in results.items()}, counts
