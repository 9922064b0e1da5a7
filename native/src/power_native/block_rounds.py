"""Whole rounds of a block drafter: the blocks of its graph, its memory's lengths kept in step."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from power_core.errors import NativeCallError
from power_core.tokens import SeqId
from power_core.whole_rounds import EMITTED_COUNT, FED
from power_native import _raw
from power_native.context import NativeContext
from power_native.round import RoundCall


class BlockRounds(RoundCall):
    """Implements ``power_core.whole_rounds.WholeRounds`` for a block drafter.

    Args:
        target: The target's context.
        drafter: The drafter's context.
        block: What is the same in every block.
        max_tokens: Most drafts of a round.
        lengths_tokens: Rows fed by sequence: the graph's, written here after every round.
        confidence_for: Returns what a draft's confidence has to be for a threshold, as the library numbers it.
        explain: Adds a hint to an error while drafting.
    """

    def __init__(
        self,
        target: NativeContext,
        drafter: NativeContext,
        block: _raw.power_block,
        *,
        max_tokens: int,
        lengths_tokens: MutableMapping[SeqId, int],
        confidence_for: Callable[[float], int],
        explain: Callable[[NativeCallError], None],
    ) -> None:
        super().__init__(target, drafter, max_tokens=max_tokens, block=block)
        self._template = block
        self._lengths_tokens = lengths_tokens
        self._confidence_for = confidence_for
        self._explain = explain
        self._seq_id: SeqId = 0

    def prepare(self, *, seq_id: SeqId, p_min: float, **same: Any) -> None:
        """Set what stays the same in a request; see ``RoundCall.prepare``."""
        super().prepare(seq_id=seq_id, p_min=p_min, **same)
        self._seq_id = seq_id
        self._template.confidence = self._confidence_for(p_min)

    def run(self) -> None:
        """Run a round; the length moves only when all went well."""
        try:
            RoundCall.run(self)
        except NativeCallError as error:
            if self.sheet.step == _raw.POWER_STEP_DRAFT:
                self._explain(error)
            raise
        counts = self.counts
        if counts[FED]:
            self._lengths_tokens[self._seq_id] += counts[EMITTED_COUNT]
