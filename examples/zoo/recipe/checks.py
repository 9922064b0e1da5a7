"""Compares the exported files, run by the library, with the models that were trained: tokens, logits, drafts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows, TapRequest
from power_native import BlockDraft, NativeContext, NativeModel, NextnChain
from recipe.drafters import BlockDrafter
from recipe.layers import GatedAttention
from recipe.mtp import MtpHead
from recipe.target import Target

DRAFTS = 4
BATCH_ROWS = 64


@attrs.frozen(kw_only=True)
class Agreement:
    """Contexts on which two programs drafted the same, of all that were tried, and where they did not."""

    same: int
    tried: int
    differing: tuple[int, ...]


def differing_lines(path: Path, tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """Return the lines that the library tokenizes otherwise than ``tokenizer``."""
    with closing(NativeModel.open(ModelSettings(path=path))) as model:
        encoded = zip(lines, tokenizer.encode_batch(list(lines), add_special_tokens=False), strict=True)
        return [line for line, wanted in encoded if list(model.vocabulary.tokenize(line)) != wanted.ids]


def logit_difference(path: Path, target: Target, tokens: Sequence[int]) -> dict[str, float]:
    """Compare the library's logits with the trained target's over a text; the file should be an F32 export.

    Both keep keys and values in float16. A value on the edge between two float16 numbers may be rounded either way,
    which moves logits by about a ten-thousandth of the largest one; so differences are shown beside that.

    Returns:
        ``largest`` and ``mean`` difference, and the ``largest_logit``.
    """
    settings = ContextSettings(ctx_tokens=1024, batch_rows=BATCH_ROWS, threads=2, flash_attention="off")
    with (
        closing(NativeModel.open(ModelSettings(path=path, arithmetic="fast"))) as model,
        closing(model.open_context(settings)) as context,
    ):
        found = np.stack([_next_logits(context, position, token) for position, token in enumerate(tokens)])
    with torch.no_grad(), half_caches(target):
        wanted = target.head(target(torch.tensor([tokens])).hidden)[0].numpy()
    difference = np.abs(found - wanted)
    return {
        "largest": float(difference.max()),
        "mean": float(difference.mean()),
        "largest_logit": float(np.abs(wanted).max()),
    }


@contextmanager
def half_caches(target: Target) -> Iterator[None]:
    """Let the target keep keys and values in float16, as the library does."""
    layers = [module for module in target.modules() if isinstance(module, GatedAttention)]
    try:
        for layer in layers:
            layer.half_cache = True
        yield
    finally:
        for layer in layers:
            layer.half_cache = False


def _next_logits(context: NativeContext, position: int, token: int) -> np.ndarray:
    context.evaluate((SequenceRows(start_pos=position, tokens=(token,)),), kernels="decode")
    return np.array(context.logits(0))


def open_target(model: NativeModel, taps: Sequence[int], *, nextn: bool = False) -> NativeContext:
    """Open a context of a target that yields the inputs of the tapped layers."""
    taps_wanted = TapRequest(layers=tuple(taps), nextn=nextn)
    return model.open_context(ContextSettings(ctx_tokens=1024, batch_rows=BATCH_ROWS, threads=2, taps=taps_wanted))


def block_agreement(
    target_path: Path, draft_path: Path, drafter: BlockDrafter, texts: Sequence[Sequence[int]], first: int
) -> Agreement:
    """Draft at every position from ``first`` on with both programs, from the library's own features."""
    same, differing = 0, []
    with closing(NativeModel.open(ModelSettings(path=target_path))) as model:
        for tokens in texts:
            for position, found, wanted in _block_drafts(model, draft_path, drafter, tokens, first):
                same += found == wanted
                differing += [] if found == wanted else [position]
    return Agreement(same=same, tried=same + len(differing), differing=tuple(differing))


def _block_drafts(
    model: NativeModel, draft_path: Path, drafter: BlockDrafter, tokens: Sequence[int], first: int
) -> Iterator[tuple[int, list[int], list[int]]]:
    shape = drafter.shape
    with closing(open_target(model, shape.target_layers)) as context:
        layers = _tapped_layers(context, tokens)
        features = torch.from_numpy(layers).unsqueeze(0)
        with closing(NativeModel.open(ModelSettings(path=draft_path))) as draft_model:
            settings = ContextSettings(
                ctx_tokens=1024, batch_rows=BATCH_ROWS, threads=2, taps=TapRequest(nextn=shape.kind != "dflash")
            )
            width = draft_model.traits.n_embd_in
            draft = draft_model.open_draft_context(settings, target=context, causal=False, embedding_width=width)
            block, fed = BlockDraft(draft, max_rows=shape.block_rows), 0
            for position in range(first, len(tokens)):
                block.feed(layers[fed:position], fed)
                fed = position
                found = _library_draft(block, drafter, position, tokens[position])
                anchors = torch.tensor([position])
                yield (
                    position,
                    found,
                    drafter.draft(features, torch.tensor([tokens]), anchors, DRAFTS).flatten().tolist(),
                )


def _tapped_layers(context: NativeContext, tokens: Sequence[int]) -> np.ndarray:
    parts = []
    for at in range(0, len(tokens), BATCH_ROWS):
        chunk = tuple(tokens[at : at + BATCH_ROWS])
        context.evaluate((SequenceRows(start_pos=at, tokens=chunk),), kernels="decode")
        parts.append(np.array(context.read_taps(0, len(chunk)).layers).reshape(len(chunk), -1))
    return np.concatenate(parts)


def _library_draft(block: BlockDraft, drafter: BlockDrafter, position: int, anchor: int) -> list[int]:
    shape = drafter.shape
    first = shape.first_draft_row
    if shape.kind == "dflash2":
        tokens, _ = block.walk_lattice(
            first_pos=position,
            token=anchor,
            fill_token=drafter.mask_token,
            n_rows=DRAFTS + first,
            max_tokens=DRAFTS,
            width=shape.selector_width,
            confidence="none",
        )
    else:
        tokens, _ = block.choose_largest(
            first_pos=position,
            token=anchor,
            fill_token=drafter.mask_token,
            n_rows=DRAFTS + first,
            first_row=first,
            max_tokens=DRAFTS,
            confidence="none",
        )
    return list(tokens)


def head_agreement(path: Path, target: Target, head: MtpHead, tokens: Sequence[int], first: int) -> Agreement:
    """Draft one token with the prediction head at every position from ``first`` on with both programs."""
    with (
        closing(NativeModel.open(ModelSettings(path=path, load_nextn=True))) as model,
        closing(open_target(model, (), nextn=True)) as context,
    ):
        rows = _state_rows(context, tokens)
        chain = NextnChain(model.open_nextn_context(context), max_tokens=1)
        before = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
        for at in range(0, first, BATCH_ROWS):
            part = slice(at, min(at + BATCH_ROWS, first))
            chain.feed(tokens[part], at, before[part])
        found = []
        for at in range(first, len(tokens)):
            found += chain.draft(first_pos=at, token=tokens[at], state=before[at], max_tokens=1)[0]
            chain.feed(tokens[at : at + 1], at, before[at : at + 1])
    wanted = _head_drafts(target, head, torch.tensor([tokens]), torch.from_numpy(before).unsqueeze(0))[first:]
    differing = tuple(first + at for at, token in enumerate(found) if token != wanted[at])
    return Agreement(same=len(found) - len(differing), tried=len(found), differing=differing)


def _state_rows(context: NativeContext, tokens: Sequence[int]) -> np.ndarray:
    parts = []
    for at in range(0, len(tokens), BATCH_ROWS):
        chunk = tuple(tokens[at : at + BATCH_ROWS])
        context.evaluate((SequenceRows(start_pos=at, tokens=chunk),), kernels="decode")
        parts.append(np.array(context.read_taps(0, len(chunk)).nextn))
    return np.concatenate(parts)


@torch.no_grad()
def _head_drafts(target: Target, head: MtpHead, tokens: Tensor, before: Tensor) -> list[int]:
    rows = head(functional.embedding(tokens, target.embeddings.weight), before)
    return functional.linear(rows, target.head.weight)[0].argmax(-1).tolist()
