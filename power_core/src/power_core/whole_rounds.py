"""Whole rounds in one call of the backend: what a drafter may offer beside ``Drafter``.

A round is the same seven steps, whoever runs them; see ``power_core.transaction``. Drafters that offer nothing, and
rounds whose end or whose choices need more than the backend's sampler, go step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from power_core.sampler import Sampler
from power_core.target import TargetContext
from power_core.tokens import SeqId, Taps, TokenId

NO_COUNTS = (0,) * 10
"""The ``WholeRounds.counts`` of a round that was not begun."""
DRAFTED = 0
EMITTED_COUNT = 2
FED = 6


class RoundSheet(Protocol):
    """What is asked of a round.

    Attributes:
        first_pos: Position of the anchor; both memories hold as many committed tokens.
        anchor: Emitted by the target, not evaluated yet.
        max_tokens: Most drafts, at least 1.
        slice_rows: Most rows of one evaluation of the target.
    """

    first_pos: int
    anchor: TokenId
    max_tokens: int
    slice_rows: int


class WholeRounds(Protocol):
    """Runs whole rounds of one target context and one drafter: prepare once, then fill in the sheet and run."""

    @property
    def sheet(self) -> RoundSheet:
        """Always the same object."""
        ...

    @property
    def counts(self) -> tuple[int, ...]:
        """What the last call did, also after a failure, for the steps that were done; all 0 when it was not made.

        One tuple, since a round's many numbers cost less read together:

        - ``drafted``: drafts that were put up for verification;
        - ``accepted``: length of the accepted prefix;
        - ``emitted_count``: emitted tokens; as many rows stay: the anchor's and those of all emitted tokens but the
          last;
        - ``evaluated_rows``: rows of the target that were written;
        - ``target_calls``: evaluations of the target;
        - ``verified``: 1 once every row that was needed is chosen;
        - ``fed``: 1 once the rejected rows are dropped and the drafter has the rows that stay;
        - ``draft_ns``: drafting and feeding;
        - ``verify_ns``: evaluating the target's rows, reading their hidden rows, dropping rows;
        - ``choose_ns``: choosing or drawing.
        """
        ...

    def draws_with(self, sampler: Sampler) -> bool:
        """Tell whether rounds can draw with this sampler as its own ``sample`` does, row by row."""
        ...

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
        """Set what stays the same in a request.

        Args:
            sampler: One that ``draws_with`` said yes to; its state moves with every drawn row.
            seq_id: The sequence, in both contexts.
            min_tokens: Fewer drafts than this are none.
            p_min: Stop before the first draft whose probability or confidence is below it.
            filled: Slices of a round with drafts get ``slice_rows`` rows; see ``SessionSettings.verify_shape``.
            stop_tokens: Tokens that end a round beside the model's own end tokens.
        """
        ...

    def replace_drafts(self, tokens: Sequence[TokenId]) -> None:
        """Let these stand for the drafts of every later round, as far as it may have so many.

        The drafter makes its own first, so the round takes the time that it would take; the tokens may be wrong.
        """
        ...

    def run(self) -> None:
        """Draft, draw rows to the first mismatch, drop the rejected rows, feed the drafter, as the sheet says.

        Afterwards both memories hold the rows that stay, unless ``fed`` is 0: then the rejected rows are still in the
        target's memory, since they cannot be dropped exactly, and the drafter waits for ``process``. After an error
        both memories may hold rows of the round, and the sampler may have drawn some.
        """
        ...

    def tokens(self) -> list[TokenId]:
        """Return the last round's anchor and drafts."""
        ...

    def emitted(self) -> list[TokenId]:
        """Return its accepted drafts, then the correction or the bonus unless the last of them ended it."""
        ...

    def taps(self, n_rows: int) -> Taps:
        """Copy the target's hidden rows of its first rows, at most ``emitted_count``; while ``fed`` is 0."""
        ...


class RoundsAfter:
    """Whole rounds with something to be done before each of them (``WholeRounds``).

    Args:
        rounds: Who runs them.
        before: Called with the sequence before each round; the sheet is filled in by then.
    """

    def __init__(self, rounds: WholeRounds, before: Callable[[SeqId], None]) -> None:
        self._rounds = rounds
        self._before = before
        self._seq_id: SeqId = 0
        self._begun = False
        self.sheet = rounds.sheet
        self.draws_with = rounds.draws_with
        self.replace_drafts = rounds.replace_drafts
        self.tokens = rounds.tokens
        self.emitted = rounds.emitted
        self.taps = rounds.taps

    def prepare(self, *, seq_id: SeqId, **same: Any) -> None:
        """Set what stays the same in a request; see ``WholeRounds.prepare``."""
        self._seq_id = seq_id
        self._rounds.prepare(seq_id=seq_id, **same)

    @property
    def counts(self) -> tuple[int, ...]:
        """What the last call did; all 0 when it was not made, since what comes before failed."""
        return self._rounds.counts if self._begun else NO_COUNTS

    def run(self) -> None:
        """Do what comes before, then run a round."""
        self._begun = False
        self._before(self._seq_id)
        self._begun = True
        self._rounds.run()


@runtime_checkable
class OffersRounds(Protocol):
    """A drafter, or the draft graph behind one, that may run whole rounds.

    Its class says so itself: one that passes every attribute on to another object has changed a step of it, presumably.
    """

    def open_rounds(self, target: TargetContext) -> WholeRounds | None:
        """Return what runs them on this target context, None when it cannot."""
        ...


def offered_rounds(drafter: object, target: TargetContext) -> WholeRounds | None:
    """Return what a drafter, or a draft graph, offers for this target, None for nothing."""
    if not hasattr(type(drafter), "open_rounds") or not isinstance(drafter, OffersRounds):
        return None
    return drafter.open_rounds(target)
