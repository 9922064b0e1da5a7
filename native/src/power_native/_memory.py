"""The memory of a context's sequences: length, exact truncation, checkpoints (``CacheState`` of power_core)."""

from __future__ import annotations

import ctypes

import numpy as np

from power_core.cache_state import Checkpoint, IntegrityReport
from power_core.tokens import SeqId
from power_native import _raw
from power_native._handles import Free, NativeHandle, Pointer
from power_native._loader import Library

_BYTES = ctypes.POINTER(ctypes.c_uint8)


class SequenceMemory(NativeHandle):
    """What a context remembers. Every fact is read from the library; nothing is counted here."""

    def __init__(
        self, kind: str, library: Library, pointer: Pointer, free: Free, *, parents: tuple[NativeHandle, ...] = ()
    ) -> None:
        super().__init__(kind, library, pointer, free, parents=parents)
        self._sequence_info = _raw.power_sequence_info(size=ctypes.sizeof(_raw.power_sequence_info))
        self._sequence_info_ref = ctypes.byref(self._sequence_info)
        self._byte_count = ctypes.c_uint64()
        self._byte_count_ref = ctypes.byref(self._byte_count)

    def length_tokens(self, seq_id: SeqId = 0) -> int:
        """Number of positions the memory holds for the sequence."""
        return int(self._sequence(seq_id).length_tokens)

    def is_stale(self, seq_id: SeqId = 0) -> bool:
        """True when nothing may be evaluated on the sequence before ``restore`` or ``clear``."""
        return bool(self._sequence(seq_id).stale)

    def can_truncate(self, length_tokens: int, seq_id: SeqId = 0) -> bool:
        """True when ``truncate`` to that length is exact now."""
        info = self._sequence(seq_id)
        dropped_rows = info.length_tokens - length_tokens
        return length_tokens >= 0 and not info.stale and 0 <= dropped_rows <= info.rollback_rows

    def truncate(self, length_tokens: int, seq_id: SeqId = 0) -> None:
        """Drop every position >= ``length_tokens``, exactly.

        Raises:
            RollbackRefused: that would leave a wrong state; nothing was changed.
        """
        self._call("power_memory_truncate", seq_id, length_tokens)

    def clear(self, seq_id: SeqId = 0) -> None:
        """Forget the sequence; always allowed."""
        self._call("power_memory_clear", seq_id)

    def checkpoint(self, seq_id: SeqId = 0) -> Checkpoint:
        """Copy the state that ``truncate`` cannot rebuild: recurrent, convolution, sliding window.

        Raises:
            StateError: the sequence is stale (``state.stale``).
        """
        length = self.length_tokens(seq_id)
        self._call("power_checkpoint_size", seq_id, self._byte_count_ref)
        size = self._byte_count.value
        data = np.empty(max(size, 1), np.uint8)
        self._call("power_checkpoint_save", seq_id, data.ctypes.data_as(_BYTES), size, self._byte_count_ref)
        return Checkpoint(seq_id=seq_id, length_tokens=length, data=data.data[: self._byte_count.value])

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to the checkpoint exactly, also from a stale state. A checkpoint can be restored repeatedly.

        Raises:
            NativeCallError: the data is not a checkpoint of this context; the sequence may be stale then.
        """
        data = np.frombuffer(checkpoint.data, np.uint8) if len(checkpoint.data) else np.empty(1, np.uint8)
        address = data.ctypes.data_as(_BYTES)
        self._call(
            "power_checkpoint_restore", checkpoint.seq_id, address, len(checkpoint.data), checkpoint.length_tokens
        )

    def check_integrity(self, seq_id: SeqId = 0) -> IntegrityReport:
        """Count and report; never repairs."""
        info = self._sequence(seq_id)
        return IntegrityReport(
            seq_id=seq_id,
            length_tokens=info.length_tokens,
            expected_tokens=info.expected_tokens,
            stale=bool(info.stale),
        )

    def first_pos(self, seq_id: SeqId = 0) -> int | None:
        """Oldest position the memory still holds, None when it holds none."""
        position = int(self._sequence(seq_id).first_pos)
        return position if position >= 0 else None

    def rollback_rows(self, seq_id: SeqId = 0) -> int:
        """Rows that ``truncate`` can drop exactly right now."""
        return int(self._sequence(seq_id).rollback_rows)

    def _sequence(self, seq_id: SeqId) -> _raw.power_sequence_info:
        self._call("power_sequence_get", seq_id, self._sequence_info_ref)
        return self._sequence_info
