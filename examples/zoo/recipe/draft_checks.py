"""Compares drafts: the exported drafters, run by the library, with the ones that were trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from power_core.tokens import TapRequest
from power_native import BlockDraft, NativeContext, NativeModel, NextnChain
from recipe.blocks import DraftShape
from recipe.drafters import BlockDrafter, ScoredDraft, scored_draft
from recipe.library_runs import BATCH_ROWS, LibrarySettings, read_rows
from recipe.mtp import MtpHead
from recipe.target import Target

DRAFTS = 4


@attrs.frozen(kw_only=True)
class Agreement:
    """On how many contexts two programs draft the same.

    Attributes:
        same: Contexts with the same drafts.
        tried: All contexts.
        largest_difference: The most by which they score a token differently, up to their first different draft.
        ties: Contexts in which a choice was won by at most twice that: rounding may decide it either way.
        faults: Positions of contexts that differ and are no ties.
    """

    same: int
    tried: int
    largest_difference: float
    ties: int
    faults: tuple[int, ...]


@attrs.frozen(kw_only=True)
class _Comparison:
    position: int
    same: bool
    difference: float
    margin: float


def block_agreement(
    settings: LibrarySettings,
    target_path: Path,
    draft_path: Path,
    drafter: BlockDrafter,
    texts: Sequence[Sequence[int]],
    first: int,
) -> Agreement:
    """Draft at every position from ``first`` on with both programs, from the library's own features."""
    taps = TapRequest(layers=drafter.shape.target_layers)
    compared: list[_Comparison] = []
    with settings.open_model(target_path) as model, settings.open_model(draft_path) as draft_model:
        for tokens in texts:
            with closing(model.open_context(settings.context(taps))) as target:
                draft = _open_draft(settings, draft_model, target, drafter.shape)
                compared += _compare_blocks(draft, target, drafter, tokens, first)
    return _agreement(compared)


def _open_draft(
    settings: LibrarySettings, model: NativeModel, target: NativeContext, shape: DraftShape
) -> NativeContext:
    context = settings.context(TapRequest(nextn=shape.kind == "dflash2"))
    return model.open_draft_context(context, target=target, causal=False, embedding_width=model.traits.n_embd_in)


def _compare_blocks(
    draft: NativeContext, target: NativeContext, drafter: BlockDrafter, tokens: Sequence[int], first: int
) -> Iterator[_Comparison]:
    layers = np.concatenate([rows.layers.reshape(len(rows.layers), -1) for rows in read_rows(target, tokens)])
    features, text = torch.from_numpy(layers).unsqueeze(0), torch.tensor([tokens])
    block, fed = BlockDraft(draft, max_rows=drafter.shape.block_rows), 0
    for position in range(first, len(tokens)):
        block.feed(layers[fed:position], fed)
        fed = position
        if drafter.shape.kind == "dflash2":
            found, scores = _walk(block, drafter, position, tokens[position])
        else:
            found, scores = _choose(block, drafter, position, tokens[position])
        yield _compare(position, found, scores, drafter.draft(features, text, position, DRAFTS))


def _choose(
    block: BlockDraft, drafter: BlockDrafter, position: int, anchor: int
) -> tuple[list[int], NDArray[np.float32]]:
    first = drafter.shape.first_draft_row
    tokens, _ = block.choose_largest(
        first_pos=position,
        token=anchor,
        fill_token=drafter.mask_token,
        n_rows=DRAFTS + first,
        first_row=first,
        max_tokens=DRAFTS,
    )
    return tokens, np.stack([block.context.logits(first + index) for index in range(DRAFTS)])


def _walk(
    block: BlockDraft, drafter: BlockDrafter, position: int, anchor: int
) -> tuple[list[int], NDArray[np.float32]]:
    """Draft with a selector; scores of tokens that are no candidates are -inf."""
    width, first = drafter.shape.selector_width, drafter.shape.first_draft_row
    tokens, _ = block.walk_lattice(
        first_pos=position,
        token=anchor,
        fill_token=drafter.mask_token,
        n_rows=DRAFTS + first,
        first_row=first,
        max_tokens=DRAFTS,
        width=width,
    )
    scores = np.full((DRAFTS, len(drafter.head)), -np.inf, np.float32)
    before = 0
    for index, row in enumerate(block.context.read_nextn(first, DRAFTS)):
        candidates = row[:width].astype(int).tolist()
        scores[index, candidates] = row[width : width * (width + 1)].reshape(width, width)[before]
        before = candidates.index(tokens[index])
    return tokens, scores


def head_agreement(
    settings: LibrarySettings, path: Path, target: Target, head: MtpHead, tokens: Sequence[int], first: int
) -> Agreement:
    """Draft one token with the prediction head at every position from ``first`` on with both programs."""
    with (
        settings.open_model(path, nextn=True) as model,
        closing(model.open_context(settings.context(TapRequest(nextn=True)))) as context,
    ):
        rows = np.concatenate([taps.nextn for taps in read_rows(context, tokens)])
        before = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
        head_context = model.open_nextn_context(
            context, threads=1, kv_type=settings.kv_type, flash_attention=settings.flash_attention
        )
        chain = NextnChain(head_context, max_tokens=1)
        for at in range(0, first, BATCH_ROWS):
            part = slice(at, min(at + BATCH_ROWS, first))
            chain.feed(tokens[part], at, before[part])
        wanted = _head_drafts(target, head, tokens, before)
        return _agreement(
            [_compare_head(chain, at, tokens[at], before[at], wanted[at]) for at in range(first, len(tokens))]
        )


def _compare_head(
    chain: NextnChain, position: int, token: int, before: NDArray[np.float32], wanted: ScoredDraft
) -> _Comparison:
    found, _ = chain.draft(first_pos=position, token=token, state=before, max_tokens=1)
    scores = np.array(chain.context.logits(0))
    chain.feed((token,), position, before[np.newaxis])
    return _compare(position, found, scores[np.newaxis], [wanted])


@torch.no_grad()
def _head_drafts(
    target: Target, head: MtpHead, tokens: Sequence[int], before: NDArray[np.float32]
) -> list[ScoredDraft]:
    embedded = functional.embedding(torch.tensor([tokens]), target.embeddings.weight)
    rows = head(embedded, torch.from_numpy(before).unsqueeze(0))
    return [scored_draft(scores) for scores in functional.linear(rows, target.head.weight)[0]]


def _compare(
    position: int, found: Sequence[int], scores: NDArray[np.float32], wanted: Sequence[ScoredDraft]
) -> _Comparison:
    """Compare up to the first different draft; what follows it was drafted after different tokens."""
    same = [token == draft.token for token, draft in zip(found, wanted, strict=True)]
    alike = same.index(False) + 1 if False in same else len(same)
    mine, theirs = scores[:alike], np.stack([draft.scores.numpy() for draft in wanted[:alike]])
    both = np.isfinite(mine) & np.isfinite(theirs)
    difference = np.abs(np.where(both, mine, 0.0) - np.where(both, theirs, 0.0)).max()
    margin = min(draft.margin for draft in wanted[:alike])
    return _Comparison(position=position, same=all(same), difference=float(difference), margin=margin)


def _agreement(compared: Sequence[_Comparison]) -> Agreement:
    largest = max(each.difference for each in compared)
    return Agreement(
        same=sum(each.same for each in compared),
        tried=len(compared),
        largest_difference=largest,
        ties=sum(each.margin <= 2 * largest for each in compared),
        faults=tuple(each.position for each in compared if not each.same and each.margin > 2 * largest),
    )
