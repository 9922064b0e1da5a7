"""A tiny draft beside its target in the library, with everything that a block computes read out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import attrs
import numpy as np
from block_reference_file import Array, DraftFile

from power_core.target import Arithmetic, ContextSettings, ModelSettings
from power_core.tokens import SequenceRows, TapRequest
from power_native import BlockDraft, NativeContext, NativeModel

CTX_TOKENS = 512
BATCH_ROWS = 64


@attrs.frozen(kw_only=True)
class LibraryBlock:
    """What the library computed for one block; shapes as ``block_reference.ReferenceBlock``.

    Attributes:
        tokens: The drafts of ``BlockDraft``.
        logits: float64[n_rows, V].
        confidences: One per draft, None when the draft has none.
        states: float64[n_rows, E], the rows' state rows, None when the draft computes none.
    """

    tokens: list[int]
    logits: Array
    confidences: Array | None
    states: Array | None


class LibraryPair:
    """An opened target and draft; ``open_pair`` opens it."""

    def __init__(self, file: DraftFile, target: NativeContext, draft: NativeContext) -> None:
        self._file, self._target, self._draft = file, target, draft
        self._block = BlockDraft(draft, max_rows=BATCH_ROWS)

    def features(self, tokens: Sequence[int]) -> Array:
        """Tapped rows [n, layers * E] of a new sequence of the target."""
        self._target.clear()
        parts = []
        for at in range(0, len(tokens), BATCH_ROWS):
            chunk = tokens[at : at + BATCH_ROWS]
            self._target.evaluate([SequenceRows(start_pos=at, tokens=chunk, logits="none")], kernels="decode")
            parts.append(self._target.read_taps(0, len(chunk)).layers.reshape(len(chunk), -1))
        return np.concatenate(parts)

    def commit(self, features: Array) -> None:
        """Feed a new sequence of the draft."""
        self._draft.clear()
        self._block.feed(features, 0)

    def propose(self, anchor: int, drafts: int) -> LibraryBlock:
        """Draft after what was fed; its logits and state rows are those of a second evaluation of the same rows."""
        tokens, confidences = self._choose(anchor, drafts)
        length, n_rows = self._draft.length_tokens(), drafts + self._file.first_draft_row
        rows = [anchor] + [self._file.mask_token] * (n_rows - 1)
        self._draft.evaluate_inputs(tokens=rows, start_pos=length, logits="all")
        logits = np.stack([self._draft.logits(row) for row in range(n_rows)]).astype(np.float64)
        states = self._draft.read_nextn(0, n_rows).astype(np.float64) if self._draft.taps.nextn else None
        self._draft.truncate(length)
        return LibraryBlock(tokens=tokens, logits=logits, confidences=confidences, states=states)

    def _choose(self, anchor: int, drafts: int) -> tuple[list[int], Array | None]:
        first = self._file.first_draft_row
        block = {
            "first_pos": self._draft.length_tokens(),
            "token": anchor,
            "fill_token": self._file.mask_token,
            "n_rows": drafts + first,
            "first_row": first,
            "max_tokens": drafts,
        }
        if "selector_hidden.weight" in self._file:
            width = int(self._file.size("selector_top_k"))
            return self._block.walk_lattice(**block, width=width, confidence="softmax")
        if "markov_w1.weight" not in self._file:
            return self._block.choose_largest(**block, confidence="softmax")
        confidence = "state" if "conf_proj.weight" in self._file else "none"
        return self._block.choose_largest(**block, confidence=confidence)


@contextmanager
def open_pair(
    draft: Path, target: Path, *, arithmetic: Arithmetic = "exact", flash_attention: Literal["auto", "off"] = "auto"
) -> Iterator[LibraryPair]:
    """Open a target with the taps that the draft asks for, and the draft beside it."""
    file = DraftFile(draft, target)
    common = {"ctx_tokens": CTX_TOKENS, "batch_rows": BATCH_ROWS, "threads": 1, "flash_attention": flash_attention}
    layers = tuple(int(layer) for layer in file.size("target_layers"))
    has_states = "selector_hidden.weight" in file or "conf_proj.weight" in file
    with (
        NativeModel.open(ModelSettings(path=target, arithmetic=arithmetic)) as target_model,
        NativeModel.open(ModelSettings(path=draft, arithmetic=arithmetic)) as draft_model,
        target_model.open_context(ContextSettings(**common, taps=TapRequest(layers=layers))) as target_context,
        draft_model.open_draft_context(
            ContextSettings(**common, taps=TapRequest(nextn=has_states)),
            target=target_context,
            causal=bool(file.size("attention.causal", False)),
            embedding_width=draft_model.traits.n_embd_in,
        ) as draft_context,
    ):
        yield LibraryPair(file, target_context, draft_context)
