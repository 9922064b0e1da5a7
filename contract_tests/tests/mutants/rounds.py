"""Faults in the core's rounds: verification and transaction. Areas VERIFY and TXN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from mutants.planting import mutant, replaced
from power_core import generation, sequence, session, transaction
from power_core.verify import VerifiedBlock, verify_block

Transaction = transaction.VerifyTransaction
Generation = generation.Generation


def other_outcome(change: Callable[[VerifiedBlock, Any], VerifiedBlock]) -> Any:
    """Change what verification finds; ``change(block, sample)``."""

    def verify(drafts: Any, sample: Any, is_terminal: Any) -> VerifiedBlock:
        return change(verify_block(drafts, sample, is_terminal), sample)

    return replaced(transaction, "verify_block", verify)


class Unrestored:
    """A sampler that does not go back."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def restore(self, snapshot: Any) -> None:
        """Go nowhere."""


# --------------------------------------------------------------------------------------------------------------- VERIFY


@mutant("VERIFY-02", "ngram")
def correction_counted_as_accepted() -> Iterator[None]:
    """The correction counts as an accepted draft."""

    def change(block: VerifiedBlock, sample: Any) -> VerifiedBlock:
        return attrs.evolve(block, accepted_tokens=block.accepted_tokens + (block.ending == "correction"))

    with other_outcome(change):
        yield


@mutant("VERIFY-07", "ngram")
def mismatch_is_accepted() -> Iterator[None]:
    """The first mismatch is emitted as the draft had it."""

    def verify(drafts: Any, sample: Any, is_terminal: Any) -> VerifiedBlock:
        block = verify_block(drafts, sample, is_terminal)
        if block.ending != "correction":
            return block
        return attrs.evolve(block, emitted=[*block.emitted[:-1], drafts[block.accepted_tokens]])

    with replaced(transaction, "verify_block", verify):
        yield


@mutant("VERIFY-01", "ngram")
def stops_one_short() -> Iterator[None]:
    """The last accepted draft of a wholly accepted block is dropped, and there is no bonus."""

    def change(block: VerifiedBlock, sample: Any) -> VerifiedBlock:
        if block.ending != "bonus" or len(block.emitted) < 2:
            return block
        return attrs.evolve(block, emitted=block.emitted[:-1], accepted_tokens=block.accepted_tokens - 1)

    with other_outcome(change):
        yield


@mutant("VERIFY-03", "ngram")
def no_bonus() -> Iterator[None]:
    """A wholly accepted block emits no token of the target's own."""

    def change(block: VerifiedBlock, sample: Any) -> VerifiedBlock:
        bonus = block.ending == "bonus" and len(block.emitted) > 1
        return attrs.evolve(block, emitted=block.emitted[:-1]) if bonus else block

    with other_outcome(change):
        yield


@mutant("VERIFY-04", "ngram")
def bonus_after_a_terminal() -> Iterator[None]:
    """A block goes on after an accepted token that ends generation."""
    with replaced(transaction, "verify_block", lambda drafts, sample, is_terminal: verify_block(drafts, sample, no)):
        yield


def no(token: int) -> bool:
    """Nothing is terminal."""
    return False


@mutant("VERIFY-05", "ngram")
def every_row_is_drawn() -> Iterator[None]:
    """All rows are drawn, also those after the first mismatch: the sampler advances past it."""

    def verify(drafts: Any, sample: Any, is_terminal: Any) -> VerifiedBlock:
        drawn = [sample(row) for row in range(len(drafts) + 1)]
        return verify_block(drafts, drawn.__getitem__, is_terminal)

    with replaced(transaction, "verify_block", verify):
        yield


@mutant("SAMPLE-01", "ngram")
def seed_drawn_once_more_after_a_rejection() -> Iterator[None]:
    """After a rejection the sampler draws once more at the same row."""

    def change(block: VerifiedBlock, sample: Any) -> VerifiedBlock:
        if block.ending == "correction":
            sample(block.accepted_tokens)
        return block

    with other_outcome(change):
        yield


@mutant("VERIFY-09", "ngram")
def rows_of_later_slices_mixed_up() -> Iterator[None]:
    """A row of a later slice is drawn at the slice's last row."""
    sample = sequence.BlockRows.sample

    def mixed(self: Any, row: int) -> int:
        token = sample(self, row)
        return self._draw(self.evaluated_rows - self._slice_start - 1) if self._slice_start else token

    with replaced(sequence.BlockRows, "sample", mixed):
        yield


@mutant("VERIFY-06", "ngram")
def anchor_stands_in_for_drafts() -> Iterator[None]:
    """A round without drafts verifies the anchor as a draft."""
    propose = Transaction.propose

    def inventive(self: Any, request: Any) -> Any:
        propose(self, request)
        if not self._proposal.tokens:
            self._proposal = transaction.Proposal(tokens=[self._parts.sequence.history[-1]])
        return self._proposal

    with replaced(Transaction, "propose", inventive):
        yield


@mutant("VERIFY-08", "ngram")
def proposals_are_not_checked() -> Iterator[None]:
    """Whatever a drafter answers goes to the target."""
    with replaced(transaction, "checked_proposal", lambda proposal, request, n_vocab: proposal):
        yield


@mutant("VERIFY-08", "ngram")
def long_proposals_are_cut_in_silence() -> Iterator[None]:
    """A proposal that is too long is cut, and a token outside the vocabulary left out, in silence."""
    checked = transaction.checked_proposal

    def lenient(proposal: Any, request: Any, n_vocab: int) -> Any:
        tokens = [token for token in getattr(proposal, "tokens", ()) if isinstance(token, int) and 0 <= token < n_vocab]
        kept = transaction.Proposal(seq_id=request.seq_id, tokens=tokens[: request.limit_tokens])
        return checked(kept, request, n_vocab)

    with replaced(transaction, "checked_proposal", lenient):
        yield


@mutant("SAMPLE-04", "ngram")
def draft_gets_a_second_chance() -> Iterator[None]:
    """A draft is accepted when one of two draws confirms it."""

    def verify(drafts: Any, sample: Any, is_terminal: Any) -> VerifiedBlock:
        def lenient(row: int) -> int:
            token, again = sample(row), sample(row)
            return again if row < len(drafts) and again == drafts[row] else token

        return verify_block(drafts, lenient, is_terminal)

    with replaced(transaction, "verify_block", verify):
        yield


@mutant("SAMPLE-06", "ngram")
def prompt_is_not_penalised() -> Iterator[None]:
    """The prompt is not taken into the penalties' window."""
    replace = session.Session._replace_sampler

    def unbegun(self: Any, sampling: Any) -> None:
        replace(self, sampling)
        self._parts.sampler = Unbegun(self._sampler)

    with replaced(session.Session, "_replace_sampler", unbegun):
        yield


class Unbegun(Unrestored):
    """A sampler that does not hear of the prompt."""

    def begin(self, prompt: Any) -> None:
        """Take nothing in."""

    def restore(self, snapshot: Any) -> None:
        self._inner.restore(snapshot)


# ------------------------------------------------------------------------------------------------------------------ TXN


@mutant("TXN-01", "ngram")
def checkpoint_after_the_proposal() -> Iterator[None]:
    """The drafter is marked after it has proposed."""
    enter, propose = Transaction.__enter__, Transaction.propose

    def late(self: Any, request: Any) -> Any:
        proposal = propose(self, request)
        drafter = self._parts.drafter
        if drafter is not None:
            self._drafter_mark = drafter.checkpoint(seq_id=self._parts.sequence.seq_id)
        return proposal

    with replaced(Transaction, "__enter__", enter), replaced(Transaction, "propose", late):
        yield


@mutant("TXN-01", "ngram")
def drafter_fed_before_the_rows_are_discarded() -> Iterator[None]:
    """The drafter learns of a round before its rejected rows are out of the memory."""
    keep = sequence.TargetSequence.keep
    commit = Transaction.commit

    def hasty(self: Any) -> None:
        delayed: list[Any] = []
        with replaced(sequence.TargetSequence, "keep", lambda *arguments: delayed.append(arguments)):
            commit(self)
        for arguments in delayed:
            arguments[0].history, whole = arguments[0].history[: self._start_length], arguments[0].history
            keep(*arguments)
            arguments[0].history = whole

    with replaced(Transaction, "commit", hasty):
        yield


@mutant("TXN-02", "ngram")
def left_round_keeps_the_target() -> Iterator[None]:
    """A round that is left uncommitted leaves its rows in the target's memory."""

    def careless(self: Any, checkpoint: Any) -> None:
        self.clean = True

    with replaced(sequence.TargetSequence, "go_back", careless):
        yield


@mutant("TXN-03", "ngram")
def left_round_keeps_the_drafter() -> Iterator[None]:
    """A round that is left uncommitted does not restore the drafter."""
    rollback = Transaction.rollback

    def forgetful(self: Any) -> None:
        drafter, self._parts.drafter = self._parts.drafter, None
        try:
            rollback(self)
        finally:
            self._parts.drafter = drafter

    with replaced(Transaction, "rollback", forgetful):
        yield


@mutant("SAMPLE-02", "ngram")
def left_round_keeps_the_sampler() -> Iterator[None]:
    """A round that is left uncommitted does not restore the sampler."""
    enter = Transaction.__enter__

    def unmarked(self: Any) -> Any:
        sampler = self._parts.sampler
        self._parts.sampler = Unrestored(sampler)
        return enter(self)

    with replaced(Transaction, "__enter__", unmarked):
        yield


@mutant("TXN-03", "ngram")
def history_grows_first() -> Iterator[None]:
    """The history is extended before the drafter has taken the rows in."""
    commit = Transaction.commit

    def hasty(self: Any) -> None:
        history = self._parts.sequence.history
        self._expect(transaction.TransactionState.VERIFIED, "commit")
        emitted = list(self._block.emitted)
        history.extend(emitted)
        try:
            del history[-len(emitted) :]
            commit(self)
        except BaseException:
            history.extend(emitted)
            raise

    with replaced(Transaction, "commit", hasty):
        yield


@mutant("TXN-06", "ngram")
def transactions_nest() -> Iterator[None]:
    """A second transaction on a sequence is let in."""
    enter = Transaction.__enter__

    def let_in(self: Any) -> Any:
        self._parts.open_transaction = None
        return enter(self)

    with replaced(Transaction, "__enter__", let_in):
        yield


@mutant("TXN-07", "ngram")
def steps_in_any_order() -> Iterator[None]:
    """A transaction does not look at its state."""
    with replaced(Transaction, "_expect", lambda self, state, operation: None):
        yield


@mutant("TXN-11", "ngram")
def failed_rollback_is_forgotten() -> Iterator[None]:
    """A rollback that failed counts as done."""
    rollback = Transaction.rollback

    def silent(self: Any) -> None:
        try:
            rollback(self)
        except Exception:  # noqa: BLE001 - the fault
            self._state = transaction.TransactionState.ROLLED_BACK
            self._parts.open_transaction = None

    with replaced(Transaction, "rollback", silent):
        yield


@mutant("TXN-10", "ngram")
def last_token_is_handed_out_again() -> Iterator[None]:
    """After a cancellation the last token that was handed out comes once more."""
    finish = Generation._finish

    def again(self: Any, reason: Any) -> None:
        finish(self, reason)
        if reason == "cancelled" and self._tokens:
            self._parts.sequence.handed_out -= 1

    with replaced(Generation, "_finish", again):
        yield
