"""Registers ``prompt-lookup``, ``ngram-context`` and ``ngram-pool``; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, PluginInfo, StrategySpec, TargetNeeds, hookimpl
from power_ngram.config import NgramConfig, NgramPoolConfig

if TYPE_CHECKING:
    from power_core.drafter import Drafter

API_MAJOR = 1
DISTRIBUTION = "power-ngram"


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Say who we are."""
    return PluginInfo(name="ngram", api=(1, 0), summary="Drafts by looking tokens up in the prompt and the output.")


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    """Register three strategies that run on every target."""
    aliases = ("prompt_lookup", "lookup", "true")
    yield _spec("prompt-lookup", aliases, "Looks in the prompt.", lambda: _lookup(NgramConfig()))
    summary = "Looks in the output, then in the prompt."
    own_first = NgramConfig(own_output_first=True)
    yield _spec("ngram-context", ("ngram_context", "context"), summary, lambda: _lookup(own_first))
    summary = "Looks for the longest match in prompt and output, and follows repetitions."
    yield _spec("ngram-pool", ("ngram_pool",), summary, _pool, draft_max_tokens=7)


def _lookup(config: NgramConfig) -> Drafter:
    from power_ngram.drafter import NgramDrafter

    return NgramDrafter(config)


def _pool() -> Drafter:
    from power_ngram.pool_drafter import NgramPoolDrafter

    return NgramPoolDrafter(NgramPoolConfig())


def _spec(
    name: str, aliases: tuple[str, ...], summary: str, build: Callable[[], Drafter], draft_max_tokens: int = 4
) -> StrategySpec:
    def create_drafter(context: DrafterContext) -> Drafter:
        context.require_api(API_MAJOR, DISTRIBUTION)
        return build()

    return StrategySpec(
        name=name,
        aliases=aliases,
        summary=summary,
        default_draft_max_tokens=draft_max_tokens,
        refuse=lambda target_header, draft_header: None,
        needs=lambda target_header, draft_header: TargetNeeds(),
        create_drafter=create_drafter,
    )
