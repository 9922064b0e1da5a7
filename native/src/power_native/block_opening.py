"""Open a block drafter beside its target, or say in a sentence why it cannot run there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from power_core.artifacts.block_layout import BlockLayout, read_block_layout
from power_core.artifacts.drafts import check_draft
from power_core.artifacts.roles import describe_role
from power_core.errors import (
    ArtifactError,
    ArtifactPairingError,
    ConfigError,
    LibraryNotFoundError,
)
from power_core.plugins.types import DrafterContext
from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import TapRequest
from power_native.block import BlockDraft, Confidence
from power_native.block_graph import BlockGraph, require_confidence
from power_native.context import NativeContext
from power_native.info import exposes_layer_inputs
from power_native.model import NativeModel
from power_native.targets import native_target

if TYPE_CHECKING:
    from power_core.artifacts import DraftValidator, GgufHeader

API_MAJOR = 1
FEED_ROWS = 32  # rows of one evaluation: the library keeps room for the logits, and the heads' chain, of as many
NO_DRAFT = "a draft file is needed and none was given"


def block_draft_refusal(target: GgufHeader, draft: GgufHeader | None, validator: DraftValidator) -> str | None:
    """Say in one sentence why a block drafter cannot run on a target, None when it can; opens no file.

    The library is asked whether it exposes the target's hidden rows, where there is one; without it, opening the target
    fails anyway.
    """
    if draft is None:
        return NO_DRAFT
    try:
        if not validator.matches(draft):
            role = describe_role(draft)
            return f"the draft is of another kind. {role.sentence} {role.next_step}"
        check_draft(target, draft, (validator,))
        exposed = exposes_layer_inputs(target.architecture)
    except ArtifactError as error:
        return str(error)
    except LibraryNotFoundError:
        return None
    return None if exposed else f"the library does not expose hidden rows of architecture '{target.architecture}'"


def require_block_layout(draft: GgufHeader | None) -> BlockLayout:
    """Return what a draft declares.

    Raises:
        ConfigError: no draft.
        ArtifactContractError: as ``read_block_layout``.
    """
    if draft is None:
        raise ConfigError(NO_DRAFT, field="draft", hint="name it with --draft FILE")
    return read_block_layout(draft)


def open_block_graph(
    context: DrafterContext, layout: BlockLayout, *, strategy: str, distribution: str, confidence: Confidence
) -> BlockGraph:
    """Check what the core hands over, and open the drafter's model and context beside the target's.

    The model gets the target's arithmetic, GPU layers and device; its tensor placements are the target's alone.

    Args:
        context: As the strategy's factory got it.
        layout: Of the draft's file. The core has checked the file, alone and against the target, before it loaded one.
        strategy: Named in errors.
        distribution: The plugin's, named in errors.
        confidence: As for ``BlockGraph``.

    Raises:
        PluginVersionError: the core speaks another major API version.
        UnsupportedStrategyError: another backend.
        ConfigError: more drafts than a block has, a larger context than the drafter was trained for, or a threshold for
            confidences that it does not have.
        ArtifactPairingError: the library loaded something else than the file declares.
        NativeError: the library refused, or memory is short.
    """
    context.require_api(API_MAJOR, distribution)
    target_model, target = native_target(context, strategy)
    _require_fit(context, layout, target)
    require_confidence(confidence, context.draft_p_min)
    model = _open_model(context.draft_path, target_model.settings)
    try:
        _require_declared(model, layout)
        draft = _open_draft(model, target, context, layout, confidence)
        return BlockGraph(model, draft, layout, draft_max_tokens=context.draft_max_tokens, confidence=confidence)
    except BaseException:
        model.close()
        raise


def _require_fit(context: DrafterContext, layout: BlockLayout, target: NativeContext) -> None:
    most, asked = layout.geometry.most_drafts, context.draft_max_tokens
    if not 1 <= asked <= most:
        raise ConfigError(
            f"`draft_max` is {asked!r}, but a block of {layout.block_size_rows} rows has at most {most} drafts",
            field="draft_max",
            value=asked,
            allowed=f"1..{most}",
            hint=f"use `--draft-max {most}` or less",
        )
    if target.ctx_tokens > layout.context_tokens:
        raise ConfigError(
            f"`ctx` is {target.ctx_tokens:,} tokens, but the draft was trained for {layout.context_tokens:,} positions",
            field="ctx",
            value=target.ctx_tokens,
            allowed=f"at most {layout.context_tokens}",
            hint=f"use `--ctx {layout.context_tokens}` or less",
        )


def _open_model(path: Path | None, target: ModelSettings) -> NativeModel:
    if path is None:
        raise ConfigError(NO_DRAFT, field="draft", hint="name it with --draft FILE")
    return NativeModel.open(
        ModelSettings(
            path=path,
            gpu_layers=target.gpu_layers,
            device=target.device,
            arithmetic=target.arithmetic,
            use_mmap=target.use_mmap,
            use_mlock=target.use_mlock,
        )
    )


def _require_declared(model: NativeModel, layout: BlockLayout) -> None:
    facts = {
        "hidden width": (model.info.n_embd, layout.hidden),
        "width of a fed row": (model.traits.n_embd_in, len(layout.target_layers) * layout.hidden),
        "vocabulary": (model.info.n_vocab, layout.vocabulary_tokens),
        "mask token": (model.traits.mask_token, layout.mask_token),
    }
    for name, (loaded, declared) in facts.items():
        if loaded != declared:
            raise ArtifactPairingError(
                f"the library loaded a draft whose {name} is {loaded}, the file declares {declared}",
                path=str(model.settings.path),
                check_id="draft.loaded",
                expected=declared,
                actual=loaded,
                hint="open the file that was checked; it may have been replaced since",
            )


def _open_draft(
    model: NativeModel, target: NativeContext, context: DrafterContext, layout: BlockLayout, confidence: Confidence
) -> BlockDraft:
    block_rows = layout.geometry.rows(context.draft_max_tokens)
    settings = ContextSettings(
        ctx_tokens=target.ctx_tokens + block_rows,
        batch_rows=max(FEED_ROWS, block_rows),
        sequences=target.sequences,
        threads=context.threads,
        flash_attention="on" if target.flash_attention else "off",
        output_rows=max(block_rows, target.sequences),
        taps=TapRequest(nextn=layout.lattice_width > 0 or confidence == "state"),
    )
    draft_context = model.open_draft_context(
        settings, target=target, causal=layout.causal, embedding_width=model.traits.n_embd_in
    )
    return BlockDraft(draft_context, max_rows=block_rows)
