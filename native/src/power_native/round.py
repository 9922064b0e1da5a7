"""A drafting primitive that any plugin may use: a whole round of target and drafter in one call."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from power_core.sampler import Sampler
from power_core.tokens import SeqId, Taps, TokenId
from power_core.whole_rounds import DRAFTED, EMITTED_COUNT, NO_COUNTS
from power_native import _raw
from power_native._status import error_for
from power_native.context import NativeContext
from power_native.sampler import GreedySampler, NativeSampler

_CALL = "power_run_round"
_FLOATS = ctypes.POINTER(ctypes.c_float)
_COUNTS = struct.Struct("=5i4xII3Q")
"""The last fields of ``power_round``, from ``drafted`` on, without ``step``."""


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
        counts: See ``power_core.whole_rounds.WholeRounds``.
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
        self._replacements = (ctypes.c_int32 * max_tokens)()
        self.sheet = _raw.power_round(
            size=ctypes.sizeof(_raw.power_round),
            room_tokens=max_tokens,
            ctx_tokens=target.ctx_tokens,
            drafter=drafter._pointer(_CALL),
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
        self.counts: tuple[int, ...] = NO_COUNTS
        self._enter_target, self._leave_target = target._gate.enter, target._gate.leave
        self._enter_drafter, self._leave_drafter = drafter._gate.enter, drafter._gate.leave
        self._target_resource, self._drafter_resource = target._resource, drafter._resource
        self._error_ref = target._error_ref
        self._function = getattr(target._functions, _CALL)
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

    def replace_drafts(self, tokens: Sequence[TokenId]) -> None:
        """Let these stand for the drafts of later rounds, once the drafter has made its own."""
        count = min(len(tokens), len(self._replacements))
        self._replacements[:count] = list(tokens[:count])
        self.sheet.replacements, self.sheet.n_replacements = self._replacements, count

    def run(self) -> None:
        """Run a round.

        Raises:
            ContextFullError: a row does not fit.
            StateError: a sequence is stale, another thread is inside, or a context or the sampler is closed.
            Cancelled: after ``abort`` of either context.
            NativeCallError: an argument out of range, a row without a finite choice, or the library failed.
        """
        target, drafter = self._target, self._drafter
        self.counts = NO_COUNTS
        if not self._enter_target(False):
            target._refuse(_CALL)
        try:
            if not self._enter_drafter(False):
                drafter._refuse(_CALL)
            try:
                if self._sampler is None:
                    self._run_held(target, drafter)
                else:
                    with self._sampler.lent(_CALL) as state:
                        self.sheet.sampler = state
                        self._run_held(target, drafter)
            finally:
                self._leave_drafter()
        finally:
            self._leave_target()

    def _run_held(self, target: NativeContext, drafter: NativeContext) -> None:
        """Run a round behind the gates."""
        pointer = self._target_resource.pointer
        if pointer is None or self._drafter_resource.pointer is None:
            (target if pointer is None else drafter)._refuse(_CALL)
        if drafter.device_choice:
            drafter.choose_on_device(self._needs_no_logits())
        for context in (drafter, target):
            if context._exact_now is not context._exact_decode:
                context._choose_kernels("decode")
        self.sheet.verified = 0
        status = self._function(pointer, self._sheet_ref, self._error_ref)
        self.counts = _COUNTS.unpack_from(self.sheet, -_COUNTS.size)
        if status:
            raise error_for(_CALL, status, target._error, target._library.path)

    def tokens(self) -> list[TokenId]:
        """Return the last round's anchor and drafts."""
        return self._tokens[: self.counts[DRAFTED] + 1]

    def emitted(self) -> list[TokenId]:
        """Return the tokens that it emits."""
        return self._emitted[: self.counts[EMITTED_COUNT]]

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
