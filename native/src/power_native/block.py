"""A drafting primitive that any plugin may use: a whole block of drafts in one evaluation."""

from __future__ import annotations

import ctypes
from typing import Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from power_core.errors import ConfigError, ContextFullError
from power_core.tokens import SeqId, TokenId
from power_native import _raw
from power_native.context import NativeContext

Confidence: TypeAlias = Literal["none", "softmax", "state"]
Drafts: TypeAlias = tuple[list[TokenId], NDArray[np.float32] | None]

CONFIDENCES = {
    "none": _raw.POWER_CONFIDENCE_NONE,
    "softmax": _raw.POWER_CONFIDENCE_SOFTMAX,
    "state": _raw.POWER_CONFIDENCE_STATE,
}


class BlockDraft:
    """A drafter's model that predicts several tokens in one evaluation of [token, fill_token, fill_token, ..].

    ``feed`` takes committed feature rows into the memory; ``choose_largest`` and ``walk_lattice`` propose from there
    and leave the memory as it was. The context (lengths, truncation) stays the caller's; buffers are allocated once.

    Args:
        context: From ``NativeModel.open_draft_context``, of a model without recurrent state. Confidences from state
            rows and ``walk_lattice`` need its ``taps.nextn``.
        max_rows: Most rows of one block.
    """

    def __init__(self, context: NativeContext, *, max_rows: int) -> None:
        if not 1 <= max_rows <= context.batch_rows:
            self._refuse("max_rows", max_rows, context.batch_rows)
        self.context = context
        self._max_rows = max_rows
        self._tokens = (ctypes.c_int32 * max_rows)()
        self._confidences = np.zeros(max_rows, np.float32)
        self._confidences_pointer = self._confidences.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self._block = _raw.power_block(size=ctypes.sizeof(_raw.power_block), out_tokens=self._tokens)
        self._block_ref = ctypes.byref(self._block)

    def feed(self, features: NDArray[np.float32], start_pos: int, *, seq_id: SeqId = 0) -> None:
        """Take in committed rows, at most ``context.batch_rows`` in one evaluation.

        Shapes: ``features`` float32[n, embedding_width]; row i stands at ``start_pos + i``.

        Raises:
            ConfigError: a shape that does not fit, or no rows.
            PowerError: otherwise as ``NativeContext.evaluate``; evaluations before the failed one keep their rows.
        """
        rows = self.context.batch_rows
        for at in range(0, max(len(features), 1), rows):
            self.context.evaluate_inputs(
                embeddings=features[at : at + rows], start_pos=start_pos + at, seq_id=seq_id, kernels="decode"
            )

    def choose_largest(
        self,
        *,
        first_pos: int,
        token: TokenId,
        fill_token: TokenId,
        n_rows: int,
        first_row: int,
        max_tokens: int,
        p_min: float = 0.0,
        confidence: Confidence = "none",
        seq_id: SeqId = 0,
    ) -> Drafts:
        """Propose the largest logit of each of the rows from ``first_row`` on; the memory ends where it began.

        Args:
            first_pos: Position of ``token``, the end of what was fed.
            token: The anchor: emitted by the target, not fed yet.
            fill_token: The token of the other rows.
            n_rows: Rows of the block.
            first_row: The row that predicts the first draft.
            max_tokens: At most this many drafts, and at most ``n_rows - first_row``.
            p_min: Stop before the first draft whose confidence is below it; 0 with confidence ``none``.
            confidence: ``softmax`` of the chosen logit, or the first value of the row's ``state`` row.
            seq_id: The sequence.

        Returns:
            The drafts, and their confidences float32[n] as an owned copy, None with confidence ``none``.

        Raises:
            ConfigError: ``n_rows`` above ``max_rows``, or an unknown ``confidence``.
            ContextFullError: the block does not fit; the memory is unchanged.
            StateError: the sequence is stale, another thread is inside, or the context is closed.
            Cancelled: after ``abort``; the memory is unchanged.
            NativeCallError: an argument out of range, a row without a finite choice, or the library failed.
        """
        block = self._block
        block.choice, block.lattice_width = _raw.POWER_CHOOSE_LARGEST, 0
        block.first_pos, block.token, block.fill_token, block.seq_id = first_pos, token, fill_token, seq_id
        block.n_rows, block.first_row, block.max_tokens, block.p_min = n_rows, first_row, max_tokens, p_min
        return self._draft((first_pos, token, fill_token, seq_id, n_rows, first_row, max_tokens, 0), confidence)

    def walk_lattice(
        self,
        *,
        first_pos: int,
        token: TokenId,
        fill_token: TokenId,
        n_rows: int,
        first_row: int = 1,
        max_tokens: int,
        width: int,
        p_min: float = 0.0,
        confidence: Literal["none", "softmax"] = "none",
        seq_id: SeqId = 0,
    ) -> Drafts:
        """Propose the tokens of a greedy walk over the rows' candidates; the memory ends where it began.

        The state row of a row holds ``width`` candidates, then a table of ``width`` x ``width`` scores whose row p
        belongs to candidate p of the row before. The walk begins with predecessor 0 and takes the best successor, the
        first on ties; ``softmax`` is the chosen score's among its table row.

        Arguments, results and errors otherwise as ``choose_largest``; ``width`` must be the model's own.
        """
        block = self._block
        block.choice, block.lattice_width = _raw.POWER_CHOOSE_LATTICE, width
        block.first_pos, block.token, block.fill_token, block.seq_id = first_pos, token, fill_token, seq_id
        block.n_rows, block.first_row, block.max_tokens, block.p_min = n_rows, first_row, max_tokens, p_min
        return self._draft((first_pos, token, fill_token, seq_id, n_rows, first_row, max_tokens, width), confidence)

    def _draft(self, numbers: tuple[int, ...], confidence: Confidence) -> Drafts:
        block = self._block
        placed = (block.first_pos, block.token, block.fill_token, block.seq_id)
        if numbers != (*placed, block.n_rows, block.first_row, block.max_tokens, block.lattice_width):
            self._refuse_numbers(numbers)
        if block.n_rows > self._max_rows:
            self._refuse("n_rows", block.n_rows, self._max_rows)
        if block.first_pos + block.n_rows > self.context.ctx_tokens:
            raise ContextFullError(
                f"a block of {block.n_rows} rows from {block.first_pos} on does not fit into a context of "
                f"{self.context.ctx_tokens} tokens",
                hint="open the draft's context with more tokens",
            )
        if confidence not in CONFIDENCES:
            self._refuse_confidence(confidence)
        block.confidence = CONFIDENCES[confidence]
        scored = confidence != "none"
        block.out_confidences = self._confidences_pointer if scored else None
        self.context.choose_on_device(block.choice == _raw.POWER_CHOOSE_LARGEST and confidence != "softmax")
        self.context._call_decoding("power_draft_block", self._block_ref)
        count = block.out_count
        return self._tokens[:count], self._confidences[:count].copy() if scored else None

    def _refuse(self, name: str, value: int, most: int) -> NoReturn:
        raise ConfigError(f"`{name}` is {value!r}, expected 1..{most}", field=name, value=value, allowed=f"1..{most}")

    def _refuse_numbers(self, numbers: tuple[int, ...]) -> NoReturn:
        allowed = f"{-(2**31)}..{2**31 - 1}"
        raise ConfigError(
            f"positions, tokens and counts of a block are {numbers!r}, expected each within {allowed}",
            field="block",
            value=numbers,
            allowed=allowed,
        )

    def _refuse_confidence(self, value: str) -> NoReturn:
        allowed = ", ".join(CONFIDENCES)
        raise ConfigError(
            f"`confidence` is {value!r}, expected one of {allowed}", field="confidence", value=value, allowed=allowed
        )
