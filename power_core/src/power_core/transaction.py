r"""The verification transaction: seven steps, one state machine, rolled back unless committed.

::

    OPEN --propose--> PROPOSED --verify--> VERIFIED --commit--> COMMITTED
      \________________\____________________\-- anything else --> ROLLED_BACK

``run_whole`` goes from OPEN to COMMITTED in one call of the backend, by the same steps.

1 checkpoint, 2 propose, 3 evaluate anchor and drafts, 4 draw rows to the first mismatch, 5 commit the accepted prefix
and discard rejected rows, 6 hand out the emitted tokens, 7 on cancel or failure return to the last committed state.
Source: power_reference.md section 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum
from types import TracebackType

from power_core.cache_state import Checkpoint
from power_core.drafter import (
    Drafter,
    DrafterCheckpoint,
    DraftRequest,
    Proposal,
    call_drafter,
    checked_proposal,
    drafter_failed,
)
from power_core.errors import IntegrityError, PowerError, StateError
from power_core.exactness.guarantor import Guarantor
from power_core.exactness.margin_guard import GuardedRows
from power_core.report import Report
from power_core.sampler import Sampler, SamplerSnapshot
from power_core.sequence import BlockRows, TargetSequence
from power_core.tokens import CommittedRows, Taps, TokenId
from power_core.verify import VerifiedBlock, verify_block
from power_core.whole_rounds import WholeRounds

NO_PROPOSAL = Proposal()


class TransactionState(Enum):
    """Where a transaction stands."""

    OPEN = "open"
    PROPOSED = "proposed"
    VERIFIED = "verified"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"


OPEN, PROPOSED, VERIFIED, COMMITTED, ROLLING_BACK, ROLLED_BACK = TransactionState


class Round:
    """What a transaction works on: one sequence, its sampler, its drafter, the request's report."""

    def __init__(self, sequence: TargetSequence, sampler: Sampler, drafter: Drafter | None, n_vocab: int) -> None:
        self.sequence = sequence
        self.sampler = sampler
        self.drafter = drafter
        self.n_vocab = n_vocab
        self.checkpoint_rows: int | None = None
        self.guarantor: Guarantor | None = None
        self.rounds: WholeRounds | None = None
        self.open_transaction: VerifyTransaction | None = None

    @property
    def runs_whole(self) -> bool:
        """Whether a round may now go in one call: nothing guards its rows, and every slice can be rolled back."""
        guarded = self.guarantor is not None and self.guarantor.guard_threshold is not None
        return self.rounds is not None and not guarded and self.checkpoint_rows is None

    def leave_drafter_out(self) -> None:
        """Go on as without a drafter, between two rounds: it gets no more rows, the target hands out no hidden rows."""
        self.drafter = None
        self.rounds = None
        self.sequence.taps = False


class VerifyTransaction:
    """One round. A context manager; leaving it uncommitted, for any reason, restores the last committed state.

    The state that moves: the target's memory, drafter, sampler, history. The history is extended last and in one step,
    so an interruption at any point leaves either the old round or the new one.

    Attributes:
        started_ns: When the round itself began: after what the state needed first, a rebuild or a measurement.
        drafted_tokens: Drafts that were put up for verification.
        accepted_tokens: Length of the accepted prefix, once the round is decided.
    """

    def __init__(self, parts: Round, report: Report) -> None:
        self._parts = parts
        self._report = report
        self._state = OPEN
        self._proposal = NO_PROPOSAL
        self._block: VerifiedBlock | None = None
        self._rows: BlockRows | None = None
        self._written = False
        self._start_length = 0
        self._drafter_mark: DrafterCheckpoint = None
        self._sampler_mark: SamplerSnapshot = None
        self._target_mark: Checkpoint | None = None
        self.started_ns = 0
        self.drafted_tokens = self.accepted_tokens = 0

    @property
    def state(self) -> TransactionState:
        """The current state."""
        return self._state

    def __enter__(self) -> VerifyTransaction:
        parts, sequence = self._parts, self._parts.sequence
        if parts.open_transaction is not None:
            parts.open_transaction.finish_rollback()
        if not sequence.clean:
            sequence.ensure_ready(self._report)
        if parts.guarantor is not None:
            parts.guarantor.cover(sequence, self._report)
        self.started_ns = time.perf_counter_ns()
        self._start_length = len(sequence.history)
        if parts.drafter is not None:
            try:
                self._drafter_mark = parts.drafter.checkpoint(seq_id=sequence.seq_id)
            except PowerError:
                raise
            except Exception as error:
                raise drafter_failed("checkpoint", error) from error
            self._report.timings_ns.draft += time.perf_counter_ns() - self.started_ns
        self._sampler_mark = parts.sampler.snapshot()
        parts.open_transaction = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is COMMITTED:
            return
        if len(self._parts.sequence.history) > self._start_length:
            self._state = COMMITTED
            self._parts.open_transaction = None
        else:
            self.rollback()

    def propose(self, request: DraftRequest | None) -> Proposal:
        """Step 2: ask the drafter for at most ``request.limit_tokens`` drafts; None proposes nothing."""
        self._expect(OPEN, "propose")
        drafter = self._parts.drafter
        if request is not None and drafter is not None:
            started_ns = time.perf_counter_ns()
            proposal = checked_proposal(
                call_drafter("propose", lambda: drafter.propose(request)), request, self._parts.n_vocab
            )
            if len(proposal.tokens) >= request.min_tokens:
                self._proposal = proposal
            self._report.timings_ns.draft += time.perf_counter_ns() - started_ns
        self._state = PROPOSED
        return self._proposal

    def verify(self, is_terminal: Callable[[TokenId], bool]) -> VerifiedBlock:
        """Steps 3 and 4: evaluate anchor and drafts slice by slice, drawing rows to the first mismatch."""
        self._expect(PROPOSED, "verify")
        started_ns = time.perf_counter_ns()
        parts = self._parts
        tokens = [parts.sequence.history[-1], *self._proposal.tokens]
        self.drafted_tokens = len(self._proposal.tokens)
        threshold = parts.guarantor.guard_threshold if parts.guarantor is not None and len(tokens) > 1 else None
        if self._needs_checkpoint(len(tokens), guarded=threshold is not None):
            self._target_mark = mark = parts.sequence.checkpoint()
            self._report.copied_bytes += len(mark.data)
        parts.sequence.clean = False
        if threshold is None:
            self._rows = BlockRows(parts.sequence, tokens, parts.sampler.sample)
        else:
            self._rows = GuardedRows(
                parts.sequence, tokens, parts.sampler.sample, threshold=threshold, checkpoint=self._target_mark
            )
        self._block = verify_block(self._proposal.tokens, self._rows.sample, is_terminal)
        self._rows.add_to(self._report, time.perf_counter_ns() - started_ns)
        self._state = VERIFIED
        return self._block

    def commit(self) -> None:
        """Step 5: keep anchor and accepted prefix everywhere, nothing of the rest, then extend the history.

        A terminal token stays outside the memory as the new anchor, as it does in plain decoding.
        """
        self._expect(VERIFIED, "commit")
        assert self._block is not None
        assert self._rows is not None
        block, rows, drafter = self._block, self._rows, self._parts.drafter
        self.accepted_tokens = block.accepted_tokens
        kept = rows.tokens[: len(block.emitted)]
        started_ns = time.perf_counter_ns()
        self._keep(kept, rows.evaluated_rows, None if drafter is None else rows.taps(len(kept)), started_ns)
        if drafter is not None and self.drafted_tokens:
            call_drafter("accept", lambda: drafter.accept(block.accepted_tokens, seq_id=self._parts.sequence.seq_id))
        self._close(block.emitted)

    def run_whole(self, max_tokens: int) -> Sequence[TokenId]:
        """Steps 2 to 5 in one call; return the emitted tokens.

        Where the memory cannot drop the rejected rows exactly, step 5 follows as in any round.
        """
        if self._state is not OPEN:
            self._expect(OPEN, "run_whole")
        sequence, rounds, history = self._parts.sequence, self._parts.rounds, self._parts.sequence.history
        assert rounds is not None, "runs_whole"
        sheet = rounds.sheet
        sheet.first_pos, sheet.anchor, sheet.max_tokens = len(history) - 1, history[-1], max_tokens
        sheet.slice_rows = sequence.slice_rows
        self._written, sequence.clean = True, False
        try:
            rounds.run()
        except PowerError:
            raise
        except Exception as error:
            raise drafter_failed("run", error) from error
        finally:
            drafted, accepted, kept_rows, evaluated_rows, calls, verified, fed, *times_ns = rounds.counts
            if verified:
                self._report.count_calls(calls, *times_ns)
        self.drafted_tokens, self.accepted_tokens = drafted, accepted
        emitted = rounds.emitted()
        if not fed:
            started_ns, kept = time.perf_counter_ns(), rounds.tokens()[:kept_rows]
            self._keep(kept, evaluated_rows, rounds.taps(kept_rows), started_ns)
        self._close(emitted)
        return emitted

    def rollback(self) -> None:
        """Step 7: return every state to the last committed round; safe to call again after an interruption."""
        if self._state in (COMMITTED, ROLLED_BACK):
            return
        self._state = ROLLING_BACK
        parts = self._parts
        try:
            if parts.drafter is not None:
                parts.drafter.restore(self._drafter_mark, seq_id=parts.sequence.seq_id)
            parts.sampler.restore(self._sampler_mark)
            if self._written or (self._rows is not None and self._rows.touched):
                parts.sequence.go_back(self._target_mark)
            else:
                parts.sequence.clean = True
        except Exception as error:
            raise IntegrityError(
                f"the rollback itself failed: {error!r}", hint="close the session and open a new one"
            ) from error
        self._state = ROLLED_BACK
        parts.open_transaction = None

    def finish_rollback(self) -> None:
        """Complete a rollback that was interrupted; refuse nesting otherwise."""
        if self._state is not ROLLING_BACK:
            raise StateError(
                f"a transaction is already open on this sequence (state `{self._state.value}`)",
                state=self._state.value,
                operation="open",
                hint="leave the first transaction before opening another",
            )
        self.rollback()

    def _needs_checkpoint(self, n_rows: int, *, guarded: bool) -> bool:
        """Tell whether truncation may not be enough: after too many rejected rows, or of a whole recurrent block."""
        parts = self._parts
        if guarded and parts.sequence.context.recurrent:
            return True
        return parts.checkpoint_rows is not None and min(n_rows, parts.sequence.slice_rows) > parts.checkpoint_rows

    def _keep(self, kept: Sequence[TokenId], evaluated_rows: int, taps: Taps | None, started_ns: int) -> None:
        """Leave the rows that stay in the target's memory, then hand them to the drafter."""
        sequence, drafter, timings = self._parts.sequence, self._parts.drafter, self._report.timings_ns
        sequence.keep(kept, evaluated_rows, self._target_mark, self._report)
        kept_ns = time.perf_counter_ns()
        timings.verify += kept_ns - started_ns
        if drafter is not None:
            committed = CommittedRows(
                seq_id=sequence.seq_id, start_pos=sequence.committed_tokens, tokens=kept, taps=taps
            )
            call_drafter("process", lambda: drafter.process(committed))
            timings.draft += time.perf_counter_ns() - kept_ns

    def _close(self, emitted: Sequence[TokenId]) -> None:
        """Make the round the last committed one, and count it."""
        sequence = self._parts.sequence
        sequence.history.extend(emitted)
        sequence.clean = True
        self._parts.open_transaction = None
        self._state = COMMITTED
        self._report.rounds += 1
        self._report.count_block(self.drafted_tokens, self.accepted_tokens)

    def _expect(self, state: TransactionState, operation: str) -> None:
        if self._state is not state:
            raise StateError(
                f"`{operation}` needs the state `{state.value}`, the transaction is `{self._state.value}`",
                state=self._state.value,
                operation=operation,
            )
