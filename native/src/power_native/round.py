"""A drafting primitive that any plugin may use: a whole round of target and drafter in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from power_core.sampler import Sampler
from power_core.tokens import SeqId, Taps, TokenId
from power_native import _raw
from power_native.context import NativeContext
from power_native.sampler import GreedySampler, NativeSampler

_CALL = "power_run_round"
_FLOATS = ctypes.POINTER(ctypes.c_float)


class RoundCall:
    """Whole rounds of a target and a drafter's context (``power_core.whole_rounds.WholeRounds``).

    The drafter's context runs a chain of prediction-head rows, or blocks; buffers are allocated once. Who owns the
    drafter's memory keeps count of what ``run`` fed to it.

    Args:
        target: Its hidden rows feed the drafter.
        drafter: The drafter's context.
        max_tokens: Most drafts of a round.
        block: What is the same in every block; None for a chain.

    Attributes:
        sheet: See ``power_core.whole_rounds.RoundSheet``.
        features: float32[n, width]: where rounds put the target's hidden rows. Block: those of the last round from row
            0 on. Chain: behind ``sheet.features_row``, which is the row before the anchor.
    """

    def __init__(
        self, target: NativeContext, drafter: NativeContext, *, max_tokens: int, block: _raw.power_block | None = None
    ) -> None:
        n_embd, n_layers = target.model.info.n_embd, len(target.taps.layers)
        self._target = target
        self._drafter = drafter
        self._block = block
        self._sampler: NativeSampler | None = None
        self._tap_shape = (n_layers, n_embd)
        self._tokens = (ctypes.c_int32 * (max_tokens + 1))()
        self._emitted = (ctypes.c_int32 * (max_tokens + 1))()
        self.sheet = _raw.power_round(
            size=ctypes.sizeof(_raw.power_round),
            room_tokens=max_tokens,
            ctx_tokens=target.ctx_tokens,
            layers=(ctypes.c_uint32 * n_layers)(*target.taps.layers),
            n_layers=n_layers,
            tokens=self._tokens,
            emitted=self._emitted,
        )
        if block is None:
            self.sheet.chain = ctypes.pointer(_raw.power_chain(size=ctypes.sizeof(_raw.power_chain), heads=1))
            self.use_features(np.empty((max_tokens + 2, n_embd), np.float32))
        else:
            self.sheet.block = ctypes.pointer(block)
            self.use_features(np.empty((max_tokens + 1, n_layers * n_embd), np.float32))
        self._sheet_ref = ctypes.byref(self.sheet)

    def use_features(self, features: NDArray[np.float32]) -> None:
        """Let the next rounds put hidden rows there; ``features`` stays as wide as it was, and contiguous."""
        self.features = features
        self.sheet.features = features.ctypes.data_as(_FLOATS)

    def draws_with(self, sampler: Sampler) -> bool:
        """Tell whether it is this package's own, and no subclass, whose draws may differ."""
        return type(sampler) in (GreedySampler, NativeSampler)

    def prepare(
        self,
        *,
        sampler: Sampler,
        seq_id: SeqId,
        min_tokens: int,
        p_min: float,
        filled: bool,
        stop_tokens: Sequence[TokenId],
    ) -> None:
        """Set what stays the same in a request."""
        sheet = self.sheet
        self._sampler = sampler if isinstance(sampler, NativeSampler) else None
        sheet.sampler = None
        sheet.seq_id, sheet.min_tokens, sheet.p_min, sheet.fill_slices = seq_id, min_tokens, p_min, filled
        sheet.n_ends = len(stop_tokens)
        sheet.ends = (ctypes.c_int32 * len(stop_tokens))(*stop_tokens)

    def run(self) -> None:
        """Run a round.

        Raises:
            ContextFullError: a row does not fit.
            StateError: a sequence is stale, another thread is inside, or a context or the sampler is closed.
            Cancelled: after ``abort`` of either context.
            NativeCallError: an argument out of range, a row without a finite choice, or the library failed.
        """
        sheet, drafter = self.sheet, self._drafter
        sheet.verified = sheet.fed = sheet.step = 0
        if not drafter._gate.enter(False):
            drafter._refuse(_CALL)
        try:
            if drafter.device_choice:
                drafter.choose_on_device(self._needs_no_logits())
            drafter._choose_kernels("decode")
            sheet.drafter = drafter._pointer(_CALL)
            if self._sampler is None:
                self._target._call_decoding(_CALL, self._sheet_ref)
            else:
                self._run_drawing(self._sampler)
        finally:
            drafter._gate.leave()

    def _run_drawing(self, sampler: NativeSampler) -> None:
        with sampler.lent(_CALL) as state:
            self.sheet.sampler = state
            self._target._call_decoding(_CALL, self._sheet_ref)

    def tokens(self) -> list[TokenId]:
        """Return the last round's anchor and drafts."""
        return self._tokens[: self.sheet.drafted + 1]

    def emitted(self) -> list[TokenId]:
        """Return the tokens that it emits."""
        return self._emitted[: self.sheet.emitted_count]

    def taps(self, n_rows: int) -> Taps:
        """Copy the target's hidden rows of its first rows."""
        if self._block is None:
            first = self.sheet.features_row + 1
            return Taps(nextn=self.features[first : first + n_rows].copy())
        return Taps(layers=self.features[:n_rows].reshape(n_rows, *self._tap_shape).copy())

    def _needs_no_logits(self) -> bool:
        block = self._block
        if block is None:
            return bool(self.sheet.p_min == 0.0)
        return bool(block.choice == _raw.POWER_CHOOSE_LARGEST and block.confidence != _raw.POWER_CONFIDENCE_SOFTMAX)
