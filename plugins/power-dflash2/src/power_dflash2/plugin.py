"""Registers the strategy ``dflash2`` and the validator of its drafts; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, PluginInfo, StrategySpec, TargetNeeds, hookimpl
from power_dflash2.config import DEFAULT_DRAFT_MAX_TOKENS, STRATEGY

if TYPE_CHECKING:
    from power_core.artifacts import ArtifactValidator, GgufHeader
    from power_core.drafter import Drafter


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Say who we are."""
    return PluginInfo(
        name="dflash2",
        api=(1, 0),
        summary="Drafts a block at once with an external DFlash2 draft and walks its lattice of candidates.",
    )


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    """Register the strategy."""
    yield StrategySpec(
        name=STRATEGY,
        aliases=("dflash-2", "dflash_2"),
        summary="Drafts a block at once with an external DFlash2 draft and walks its lattice of candidates.",
        default_draft_max_tokens=DEFAULT_DRAFT_MAX_TOKENS,
        uses_draft_file=True,
        model_backed=True,
        refuse=_refuse,
        needs=_needs,
        create_drafter=_create_drafter,
        most_drafts=_most_drafts,
    )


@hookimpl
def power_artifact_validators() -> Iterator[ArtifactValidator]:
    """Register the validator."""
    from power_dflash2.artifact import Dflash2Validator

    yield Dflash2Validator()


def _refuse(target_header: GgufHeader, draft_header: GgufHeader | None) -> str | None:
    from power_dflash2.artifact import Dflash2Validator
    from power_native import block_draft_refusal

    return block_draft_refusal(target_header, draft_header, Dflash2Validator())


def _needs(target_header: GgufHeader, draft_header: GgufHeader | None) -> TargetNeeds:
    from power_core.tokens import TapRequest
    from power_native import require_block_layout

    return TargetNeeds(taps=TapRequest(layers=require_block_layout(draft_header).target_layers))


def _most_drafts(target_header: GgufHeader, draft_header: GgufHeader | None) -> int | None:
    from power_native import require_block_layout

    return require_block_layout(draft_header).geometry.most_drafts


def _create_drafter(context: DrafterContext) -> Drafter:
    from power_core.graph_drafter import GraphDrafter
    from power_dflash2.graph import open_graph

    return GraphDrafter(open_graph(context))
