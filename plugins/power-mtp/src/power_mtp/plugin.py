"""Registers the strategy ``mtp`` and the validator of its heads; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, PluginInfo, StrategySpec, TargetNeeds, hookimpl
from power_mtp.config import DEFAULT_DRAFT_MAX_TOKENS, OPTIONS, STRATEGY

if TYPE_CHECKING:
    from power_core.artifacts.gguf import GgufHeader
    from power_core.artifacts.validation import ArtifactValidator
    from power_core.drafter import Drafter


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Say who we are."""
    return PluginInfo(name="mtp", api=(1, 0), summary="Drafts with the MTP heads inside the target's own file.")


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    """Register the strategy."""
    yield StrategySpec(
        name=STRATEGY,
        aliases=("multi-token-prediction", "multi_token_prediction"),
        summary="Chains the target's own multi-token-prediction heads.",
        default_draft_max_tokens=DEFAULT_DRAFT_MAX_TOKENS,
        model_backed=True,
        refuse=_refuse,
        needs=_needs,
        create_drafter=_create_drafter,
        most_drafts=_most_drafts,
        options=OPTIONS,
    )


@hookimpl
def power_artifact_validators() -> Iterator[ArtifactValidator]:
    """Register the validators."""
    from power_mtp.artifact import MtpValidator
    from power_mtp.fr_map import FrMapValidator

    yield MtpValidator()
    yield FrMapValidator()


def _refuse(target_header: GgufHeader, draft_header: GgufHeader | None) -> str | None:
    from power_mtp.artifact import refusal

    return refusal(target_header)


def _most_drafts(target_header: GgufHeader, draft_header: GgufHeader | None) -> int | None:
    # One head drafts a chain of any length; of several heads each drafts one token.
    heads = target_header.nextn_layers
    return heads if heads > 1 else None


def _needs(target_header: GgufHeader, draft_header: GgufHeader | None) -> TargetNeeds:
    from power_core.tokens import TapRequest

    return TargetNeeds(nextn_weights=True, taps=TapRequest(nextn=True))


def _create_drafter(context: DrafterContext) -> Drafter:
    from power_core.graph_drafter import GraphDrafter
    from power_mtp.graph import open_graph

    return GraphDrafter(open_graph(context))
