"""What any block drafter's plugin registers, from the few things in which the kinds differ; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, StrategySpec, TargetNeeds

if TYPE_CHECKING:
    from power_core.artifacts import BlockLayout, DraftValidator, GgufHeader
    from power_core.drafter import Drafter
    from power_native.block import Confidence


def block_strategy(
    *,
    name: str,
    distribution: str,
    summary: str,
    default_draft_max_tokens: int,
    validator: Callable[[], DraftValidator],
    confidence: Callable[[BlockLayout], Confidence],
    aliases: tuple[str, ...] = (),
    schedulers: tuple[str, ...] = ("fixed", "adaptive", "goodput"),
) -> StrategySpec:
    """Return the strategy of one kind of block draft.

    Args:
        name: Of the strategy; the kind of the validator.
        distribution: The plugin's, named in errors.
        summary: One sentence.
        default_draft_max_tokens: K when the user set none.
        validator: Returns the validator of the kind; called at the first use, so that registering stays cheap.
        confidence: Tells for a layout what a draft's confidence is; see ``BlockGraph``.
        aliases: Other accepted spellings.
        schedulers: Schedulers that it runs with.
    """

    def refuse(target_header: GgufHeader, draft_header: GgufHeader | None) -> str | None:
        from power_native.block_opening import block_draft_refusal

        return block_draft_refusal(target_header, draft_header, validator())

    def layout_of(draft_header: GgufHeader | None) -> BlockLayout:
        from power_native.block_opening import require_block_layout

        return require_block_layout(draft_header)

    def needs(target_header: GgufHeader, draft_header: GgufHeader | None) -> TargetNeeds:
        from power_core.tokens import TapRequest

        return TargetNeeds(taps=TapRequest(layers=layout_of(draft_header).target_layers))

    def create_drafter(context: DrafterContext) -> Drafter:
        from power_core.graph_drafter import GraphDrafter
        from power_native.block_opening import open_block_graph

        layout = layout_of(context.draft_header)
        graph = open_block_graph(
            context, layout, strategy=name, distribution=distribution, confidence=confidence(layout)
        )
        return GraphDrafter(graph)

    return StrategySpec(
        name=name,
        aliases=aliases,
        summary=summary,
        default_draft_max_tokens=default_draft_max_tokens,
        uses_draft_file=True,
        model_backed=True,
        refuse=refuse,
        needs=needs,
        create_drafter=create_drafter,
        most_drafts=lambda target_header, draft_header: layout_of(draft_header).geometry.most_drafts,
        most_ctx=lambda target_header, draft_header: layout_of(draft_header).context_tokens,
        has_confidence=lambda target_header, draft_header: confidence(layout_of(draft_header)) != "none",
        schedulers=schedulers,
    )
