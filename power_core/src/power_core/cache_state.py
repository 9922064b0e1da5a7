"""The cache-state protocol: what a target (or drafter) context remembers, and how it goes back.

A context may keep attention keys and values, sliding windows, recurrent and convolution state. Going back is exact or
refused; it is never approximate.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import attrs

from power_core.errors import IntegrityError
from power_core.tokens import SeqId


@attrs.frozen(kw_only=True, eq=False)
class Checkpoint:
    """A copy of the state that ``truncate`` cannot rebuild (recurrent, convolution, sliding window).

    Attributes:
        seq_id: The sequence it was taken from.
        length_tokens: Committed length when it was taken.
        data: Opaque bytes; empty when the context keeps no such state.
    """

    seq_id: SeqId
    length_tokens: int
    data: bytes | memoryview


@attrs.frozen(kw_only=True)
class IntegrityReport:
    """Facts counted in the context itself, not remembered by the caller.

    Attributes:
        length_tokens: Positions the memory holds for the sequence.
        expected_tokens: Positions that were evaluated and not removed.
        stale: True when the state may not be built upon (after an abort, say) until it is restored or rebuilt.
    """

    seq_id: SeqId
    length_tokens: int
    expected_tokens: int
    stale: bool

    def raise_if_broken(self) -> None:
        """Raise ``IntegrityError`` when the counted facts contradict the recorded ones."""
        if self.stale or self.length_tokens != self.expected_tokens:
            raise IntegrityError(
                f"sequence {self.seq_id} holds {self.length_tokens} tokens, "
                f"expected {self.expected_tokens} (stale={self.stale})",
                hint="rebuild the sequence from its committed tokens before decoding on it",
            )


@runtime_checkable
class CacheState(Protocol):
    """One context's memory, all sequences."""

    def length_tokens(self, seq_id: SeqId = 0) -> int:
        """Number of positions the memory holds for the sequence."""
        ...

    def is_stale(self, seq_id: SeqId = 0) -> bool:
        """True when nothing may be evaluated on the sequence before ``restore`` or ``clear``."""
        ...

    def can_truncate(self, length_tokens: int, seq_id: SeqId = 0) -> bool:
        """True when ``truncate`` to that length is exact now."""
        ...

    def truncate(self, length_tokens: int, seq_id: SeqId = 0) -> None:
        """Drop every position >= ``length_tokens``, exactly; else raise ``RollbackRefused`` and change nothing."""
        ...

    def checkpoint(self, seq_id: SeqId = 0) -> Checkpoint:
        """Copy the state that ``truncate`` cannot rebuild."""
        ...

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to the checkpoint exactly, also from a stale state."""
        ...

    def clear(self, seq_id: SeqId = 0) -> None:
        """Forget the sequence; always allowed."""
        ...

    def check_integrity(self, seq_id: SeqId = 0) -> IntegrityReport:
        """Count and report; never repairs."""
        ...
