"""Whole rounds of one MTP head: its chain, and the pending row carried from round to round.

The target's state rows of consecutive rounds stand behind each other, and a round's last one is the pending row of the
next: nothing is copied. A row that belongs to a state is never written again, so a state that somebody keeps stays as
it was; a round that does not follow the last one begins with a copy at the end.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

import numpy as np

from power_core.tokens import SeqId
from power_core.whole_rounds import EMITTED_COUNT, FED
from power_native import NativeContext, RoundCall

if TYPE_CHECKING:
    from power_mtp.graph import HeadState, StateRows

ROUNDS_IN_MEMORY = 16
"""Full rounds between two allocations."""


class MtpRounds(RoundCall):
    """Implements ``power_core.whole_rounds.WholeRounds`` for one head.

    Args:
        target: The target's context.
        drafter: The head's context.
        max_tokens: Most drafts of a round.
        states: What the head knows by sequence: the graph's, written here after every round.
    """

    def __init__(
        self,
        target: NativeContext,
        drafter: NativeContext,
        *,
        max_tokens: int,
        states: MutableMapping[SeqId, HeadState],
    ) -> None:
        super().__init__(target, drafter, max_tokens=max_tokens)
        self._states = states
        self._round_rows = max_tokens + 2
        self._end = 0

    def run(self) -> None:
        """Run a round; the state moves only when all went well."""
        seq_id = self.sheet.seq_id
        before = self._states[seq_id]
        follows = before.row == self._end and before.rows is self.features
        if not follows or self._end > len(self.features) - self._round_rows:
            self._begin_with(before.pending)
        first = self._end
        self.sheet.features_row, self._end = first, first + 1
        RoundCall.run(self)
        if self.counts[FED]:
            emitted_count = self.counts[EMITTED_COUNT]
            self._end = first + emitted_count
            self._states[seq_id] = before.after(emitted_count, self.features, self._end)

    def _begin_with(self, pending: StateRows) -> None:
        """Put a pending row behind all rows that states may hold, in new memory where there is no room."""
        self._end += 1
        if len(self.features) - self._end < self._round_rows:
            self.use_features(np.empty((ROUNDS_IN_MEMORY * self._round_rows, pending.shape[0]), np.float32))
            self._end = 0
        self.features[self._end] = pending
