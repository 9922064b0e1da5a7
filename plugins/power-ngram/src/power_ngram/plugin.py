"""Registers the strategies ``prompt-lookup`` and ``ngram-context``; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, PluginInfo, StrategySpec, TargetNeeds, hookimpl
from power_ngram.config import NgramConfig

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
    """Register two strategies that run on every target."""
    yield _spec("prompt-lookup", ("prompt_lookup", "lookup", "true"), "Looks in the prompt.", NgramConfig())
    summary = "Looks in the output, then in the prompt."
    yield _spec("ngram-context", ("ngram_context", "context"), summary, NgramConfig(own_output_first=True))


def _spec(name: str, aliases: tuple[str, ...], summary: str, config: NgramConfig) -> StrategySpec:
    def create_drafter(context: DrafterContext) -> Drafter:
        from power_ngram.drafter import NgramDrafter

        context.require_api(API_MAJOR, DISTRIBUTION)
        return NgramDrafter(config)

    return StrategySpec(
        name=name,
        aliases=aliases,
        summary=summary,
        default_draft_max_tokens=4,
        refuse=lambda target_header, draft_header: None,
        needs=lambda target_header, draft_header: TargetNeeds(),
        create_drafter=create_drafter,
    )
