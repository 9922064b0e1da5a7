"""The draft graph of any block drafter: hidden rows of committed tokens in, one block of drafts out.

::

    feed     committed rows 0..n-1: the target's tapped layers side by side, one embedding row a token
    draft    rows n..n+R-1: [anchor, mask, mask, ...]; they see everything fed and, unless causal, each other;
             afterwards they are dropped, so only committed rows stay

R is as many rows as the drafts that a round asks for take: narrow rounds are cheap ones.

``power_native.block_opening`` opens one.

Source: llama_cpp.md, "Draft side".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from power_core.drafter import DraftRequest
from power_core.errors import ConfigError, NativeCallError, StateError
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SeqId
from power_native import _raw
from power_native.block import CONFIDENCES, BlockDraft, Confidence, Drafts
from power_native.block_rounds import BlockRounds
from power_native.context import NativeContext
from power_native.model import NativeModel

if TYPE_CHECKING:
    from power_core.artifacts.block_layout import BlockLayout


class BlockGraph:
    """A block drafter's model and memory, several sequences (``power_core.graph_drafter.DraftGraph``).

    Args:
        model: The drafter's own model; closed with the graph.
        draft: Runs the blocks, on a context of ``model`` that is this graph's alone.
        layout: What the drafter's file declares.
        draft_max_tokens: K, at most the layout's most drafts.
        confidence: What a draft's confidence is: ``softmax`` of its score among those it was chosen from, ``state`` for
            what the drafter's own head says, ``none`` when it has none.
    """

    def __init__(
        self,
        model: NativeModel,
        draft: BlockDraft,
        layout: BlockLayout,
        *,
        draft_max_tokens: int,
        confidence: Confidence,
    ) -> None:
        self._model = model
        self._context = draft.context
        self._feed = draft.feed
        self._choose = _choice(draft, layout)
        self._layout = layout
        self._row_shape = (len(layout.target_layers), layout.hidden)
        self._draft_max_tokens = draft_max_tokens
        self._confidence = confidence
        self._lengths_tokens: dict[SeqId, int] = {}

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the library's compute so far."""
        return self._context.compute_ns

    def clear(self, seq_id: SeqId) -> None:
        """Start the sequence anew with an empty memory."""
        self._lengths_tokens.pop(seq_id, None)
        self._context.clear(seq_id)
        self._lengths_tokens[seq_id] = 0

    def length_tokens(self, seq_id: SeqId) -> int | None:
        """Rows fed to the sequence since its last ``clear``; None before the first."""
        return self._lengths_tokens.get(seq_id)

    def feed(self, rows: CommittedRows) -> None:
        """Take in committed rows; the length moves only when all went well.

        Raises:
            StateError: the rows do not follow the last ones, or come without a hidden row of every layer each.
        """
        features = self._checked_features(rows)
        self._feed(features, rows.start_pos, seq_id=rows.seq_id)
        self._lengths_tokens[rows.seq_id] = rows.start_pos + len(features)

    def draft(self, request: DraftRequest) -> Drafts:
        """Return drafts after ``request.anchor`` and, where ``p_min`` needs them, their confidences, float32[n].

        Raises:
            ConfigError: ``p_min`` is above 0 and the drafter has no confidence.
            NativeCallError: a row without a finite choice: the drafter's weights are damaged.
        """
        confidence = self._confidence_for(request.p_min)
        max_tokens = min(request.limit_tokens, self._draft_max_tokens)
        try:
            return self._choose(
                first_pos=request.n_past,
                token=request.anchor,
                n_rows=self._layout.geometry.rows(max_tokens),
                max_tokens=max_tokens,
                p_min=request.p_min,
                confidence=confidence,
                seq_id=request.seq_id,
            )
        except NativeCallError as error:
            self._explain(error)
            raise

    def open_rounds(self, target: TargetContext) -> BlockRounds | None:
        """Return what runs whole rounds; None for another backend's target, and for a subclass."""
        if type(self) is not BlockGraph or not isinstance(target, NativeContext):
            return None
        return BlockRounds(
            target,
            self._context,
            _block_of(self._layout),
            max_tokens=self._draft_max_tokens,
            lengths_tokens=self._lengths_tokens,
            confidence_for=lambda p_min: CONFIDENCES[self._confidence_for(p_min)],
            explain=self._explain,
        )

    def save(self, seq_id: SeqId) -> int:
        """Return the sequence's length; the memory is only ever cut back to one."""
        length_tokens = self._lengths_tokens.get(seq_id)
        return self._begun(seq_id, "checkpoint") if length_tokens is None else length_tokens

    def restore(self, state: int, seq_id: SeqId) -> None:
        """Return to a saved length exactly, also after a call that failed half-way."""
        self._context.truncate(state, seq_id)
        self._lengths_tokens[seq_id] = state

    def close(self) -> None:
        """Free the context, then the model; safe to call twice."""
        self._lengths_tokens.clear()
        self._context.close()
        self._model.close()

    def _confidence_for(self, p_min: float) -> Confidence:
        if p_min > 0.0:
            require_confidence(self._confidence, p_min)
            return self._confidence
        return "none"

    def _explain(self, error: NativeCallError) -> None:
        if error.status == _raw.POWER_NO_FINITE_LOGIT:
            path = self._model.settings.path
            error.hint = f"the weights of the draft {path} are damaged: use another draft, or run with `--spec off`"

    def _begun(self, seq_id: SeqId, operation: str) -> int:
        length_tokens = self._lengths_tokens.get(seq_id)
        if length_tokens is None:
            raise StateError(f"sequence {seq_id!r} was not begun", operation=operation, hint="call `clear` first")
        return length_tokens

    def _checked_features(self, rows: CommittedRows) -> NDArray[np.float32]:
        length_tokens = self._begun(rows.seq_id, "process")
        if rows.start_pos != length_tokens:
            raise StateError(
                f"rows of sequence {rows.seq_id!r} start at position {rows.start_pos!r}, expected {length_tokens}",
                operation="process",
                hint="hand over every committed row once, in order",
            )
        layers = rows.taps.layers if rows.taps is not None else None
        shape, expected = None if layers is None else layers.shape, (len(rows.tokens), *self._row_shape)
        if layers is None or shape != expected:
            raise StateError(
                f"the rows of sequence {rows.seq_id!r} come with hidden rows of shape {shape}, expected {expected}",
                operation="process",
                hint="open the target with `TapRequest(layers=...)` of the drafter's target layers, in their order",
            )
        return layers.reshape(len(layers), -1)


def require_confidence(confidence: Confidence, p_min: float) -> None:
    """Refuse a threshold that there is nothing to compare with.

    Raises:
        ConfigError: ``p_min`` is above 0 and the drafter has no confidence.
    """
    if p_min > 0.0 and confidence == "none":
        raise ConfigError(
            f"`draft_p_min` is {p_min!r}, but the draft has no confidence head to compare with it",
            field="draft_p_min",
            value=p_min,
            allowed="0",
            hint="leave `draft_p_min` at 0, or use a draft that has a confidence head",
        )


def _choice(draft: BlockDraft, layout: BlockLayout) -> Callable[..., Drafts]:
    """Bind what is the same in every block: its mask token, and how rows become drafts."""
    first_row, fill_token = layout.geometry.first_draft_row, layout.mask_token
    if not layout.lattice_width:
        return partial(draft.choose_largest, first_row=first_row, fill_token=fill_token)
    return partial(draft.walk_lattice, first_row=first_row, fill_token=fill_token, width=layout.lattice_width)


def _block_of(layout: BlockLayout) -> _raw.power_block:
    """Return what is the same in every block of a whole round."""
    return _raw.power_block(
        size=ctypes.sizeof(_raw.power_block),
        choice=_raw.POWER_CHOOSE_LATTICE if layout.lattice_width else _raw.POWER_CHOOSE_LARGEST,
        fill_token=layout.mask_token,
        first_row=layout.geometry.first_draft_row,
        lattice_width=layout.lattice_width,
    )
