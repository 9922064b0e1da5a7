"""Rows of rounds that did not draft reach the drafter together, before it drafts again: pauses cost next to nothing."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SeqId, Taps, TokenId
from power_core.whole_rounds import RoundsAfter, WholeRounds, offered_rounds

MOST_OWED_ROWS = 64
"""Rows held back at most; then they are handed over, so that memory stays bounded."""


@attrs.define(kw_only=True, eq=False)
class OwingCheckpoint:
    """A place to return to: what the drafter had been fed and what it was owed, together always the same rows.

    Attributes:
        place: The drafter's own checkpoint, the list of rows that it was owed then, and how many entries of it.
    """

    place: tuple[DrafterCheckpoint, list[CommittedRows], int]


class DeferredFeeding:
    """Implements ``Drafter`` around another one, which gets every committed row once, in order, before it is asked.

    What is owed was committed by earlier rounds, so a rollback never takes back a hand-over: a drafter has to undo no
    more than a round of its own, however long it paused.

    Args:
        drafter: Who drafts; not owned.
        most_rows: Rows to hold back at most.
    """

    def __init__(self, drafter: Drafter, most_rows: int = MOST_OWED_ROWS) -> None:
        self._drafter = drafter
        self._most_rows = most_rows
        self._owed: dict[SeqId, list[CommittedRows]] = {}
        self._asked: set[SeqId] = set()
        self._latest: dict[SeqId, OwingCheckpoint] = {}

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        """Forget the sequence, what is owed included."""
        self._owed[seq_id] = []
        self._latest.pop(seq_id, None)
        self._asked.add(seq_id)
        self._drafter.begin(prompt, seq_id=seq_id)

    def process(self, rows: CommittedRows) -> None:
        """Hand over the rows of a round that drafted at once; hold back those of one that did not."""
        if rows.seq_id in self._asked:
            self._drafter.process(rows)
        else:
            self._owed.setdefault(rows.seq_id, []).append(rows)

    def ready_to_draft(self, seq_id: SeqId) -> None:
        """Hand over what is owed; the drafter is asked next."""
        self._asked.add(seq_id)
        self._hand_over(seq_id)

    def open_rounds(self, target: TargetContext) -> WholeRounds | None:
        """Return the drafter's whole rounds, each after a hand-over; None when it has none."""
        rounds = offered_rounds(self._drafter, target)
        return None if rounds is None else RoundsAfter(rounds, self.ready_to_draft)

    def propose(self, request: DraftRequest) -> Proposal:
        """Hand over what is owed, then ask."""
        self.ready_to_draft(request.seq_id)
        return self._drafter.propose(request)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Pass it on."""
        self._drafter.accept(accepted_tokens, seq_id=seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> OwingCheckpoint:
        """Save; a new round begins, and nothing has been asked in it. Hands over what is owed when it is the most."""
        self._asked.discard(seq_id)
        owed = self._owed.setdefault(seq_id, [])
        inner = self._drafter.checkpoint(seq_id=seq_id)
        self._latest[seq_id] = checkpoint = OwingCheckpoint(place=(inner, owed, len(owed)))
        if len(owed) >= self._most_rows:
            try:
                self._hand_over(seq_id)
            except BaseException:
                self.restore(checkpoint, seq_id=seq_id)
                raise
        return checkpoint

    def restore(self, checkpoint: OwingCheckpoint, *, seq_id: SeqId = 0) -> None:
        """Return to the checkpoint, owing what was owed then and was not handed over since in full."""
        inner, owed, entries = checkpoint.place
        self._drafter.restore(inner, seq_id=seq_id)
        self._owed[seq_id] = owed[:entries]
        self._asked.discard(seq_id)

    def close(self) -> None:
        """Forget what is owed; the drafter is closed by its owner."""
        self._owed.clear()

    def _hand_over(self, seq_id: SeqId) -> None:
        """Feed what is owed; the latest checkpoint moves behind it in one step, an interruption before that owes it."""
        owed = self._owed.get(seq_id)
        if owed:
            self._drafter.process(joined(owed))
            fed: list[CommittedRows] = []
            self._latest[seq_id].place = (self._drafter.checkpoint(seq_id=seq_id), fed, 0)
            self._owed[seq_id] = fed


def joined(parts: Sequence[CommittedRows]) -> CommittedRows:
    """Return consecutive rows of one sequence as one piece."""
    if len(parts) == 1:
        return parts[0]
    taps = [part.taps for part in parts if part.taps is not None]
    return CommittedRows(
        seq_id=parts[0].seq_id,
        start_pos=parts[0].start_pos,
        tokens=[token for part in parts for token in part.tokens],
        taps=Taps(
            nextn=_stacked([each.nextn for each in taps]),
            layers=_stacked([each.layers for each in taps]),
        )
        if taps
        else None,
    )


def _stacked(rows: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    known = [each for each in rows if each is not None]
    return np.concatenate(known) if known else None
