r"""The verification transaction: seven steps, one state machine, rolled back unless committed.

::

    OPEN --propose--> PROPOSED --verify--> VERIFIED --commit--> COMMITTED
      \________________\____________________\-- anything else --> ROLLED_BACK

1 checkpoint, 2 propose, 3 evaluate anchor and drafts, 4 draw rows to the first mismatch, 5 commit the accepted prefix
and discard rejected rows, 6 hand out the emitted tokens, 7 on cancel or failure return to the last committed state.
Source: power_reference.md section 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from types import TracebackType

from power_core.cache_state import Checkpoint
from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal, call_drafter, checked_proposal
from power_core.errors import IntegrityError, StateError
from power_core.exactness.guarantor import Guarantor
from power_core.exactness.margin_guard import GuardedRows
from power_core.report import Report
from power_core.sampler import Sampler, SamplerSnapshot
from power_core.sequence import BlockRows, TargetSequence
from power_core.tokens import CommittedRows, TokenId
from power_core.verify import VerifiedBlock, verify_block


class TransactionState(Enum):
    """Where a transaction stands."""

    OPEN = "open"
    PROPOSED = "proposed"
    VERIFIED = "verified"
    COMMITTED = "committed"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"


class Round:
    """What a transaction works on: one sequence, its sampler, its drafter, the request's report."""

    def __init__(self, sequence: TargetSequence, sampler: Sampler, drafter: Drafter | None, n_vocab: int) -> None:
        self.sequence = sequence
        self.sampler = sampler
        self.drafter = drafter
        self.n_vocab = n_vocab
        self.checkpoint_rows: int | None = None
        self.guarantor: Guarantor | None = None
        self.open_transaction: VerifyTransaction | None = None


class VerifyTransaction:
    """One round. A context manager; leaving it uncommitted, for any reason, restores the last committed state.

    The state that moves: the target's memory, drafter, sampler, history. The history is extended last and in one step,
    so an interruption at any point leaves either the old round or the new one.

    Attributes:
        started_ns: When the round itself began: after what the state needed first, a rebuild or a measurement.
    """

    def __init__(self, parts: Round, report: Report) -> None:
        self._parts = parts
        self._report = report
        self._state = TransactionState.OPEN
        self._proposal = Proposal()
        self._block: VerifiedBlock | None = None
        self._rows: BlockRows | None = None
        self._start_length = 0
        self._drafter_mark: DrafterCheckpoint = None
        self._sampler_mark: SamplerSnapshot = None
        self._target_mark: Checkpoint | None = None
        self.started_ns = 0

    @property
    def state(self) -> TransactionState:
        """The current state."""
        return self._state

    def __enter__(self) -> VerifyTransaction:
        parts = self._parts
        if parts.open_transaction is not None:
            parts.open_transaction.finish_rollback()
        parts.sequence.ensure_ready(self._report)
        if parts.guarantor is not None:
            parts.guarantor.cover(parts.sequence, self._report)
        self.started_ns = time.perf_counter_ns()
        self._start_length = len(parts.sequence.history)
        drafter, seq_id = parts.drafter, parts.sequence.seq_id
        if drafter is not None:
            self._drafter_mark = call_drafter("checkpoint", lambda: drafter.checkpoint(seq_id=seq_id))
            self._report.timings_ns.draft += time.perf_counter_ns() - self.started_ns
        self._sampler_mark = parts.sampler.snapshot()
        parts.open_transaction = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if len(self._parts.sequence.history) > self._start_length:
            self._state = TransactionState.COMMITTED
            self._parts.open_transaction = None
        else:
            self.rollback()

    def propose(self, request: DraftRequest | None) -> Proposal:
        """Step 2: ask the drafter for at most ``request.limit_tokens`` drafts; None proposes nothing."""
        self._expect(TransactionState.OPEN, "propose")
        drafter = self._parts.drafter
        if request is not None and drafter is not None:
            started_ns = time.perf_counter_ns()
            proposal = checked_proposal(
                call_drafter("propose", lambda: drafter.propose(request)), request, self._parts.n_vocab
            )
            if len(proposal.tokens) >= request.min_tokens:
                self._proposal = proposal
            self._report.timings_ns.draft += time.perf_counter_ns() - started_ns
        self._state = TransactionState.PROPOSED
        return self._proposal

    def verify(self, is_terminal: Callable[[TokenId], bool]) -> VerifiedBlock:
        """Steps 3 and 4: evaluate anchor and drafts slice by slice, drawing rows to the first mismatch."""
        self._expect(TransactionState.PROPOSED, "verify")
        started_ns = time.perf_counter_ns()
        parts = self._parts
        tokens = [parts.sequence.history[-1], *self._proposal.tokens]
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
        self._state = TransactionState.VERIFIED
        return self._block

    def commit(self) -> None:
        """Step 5: keep anchor and accepted prefix everywhere, nothing of the rest, then extend the history.

        A terminal token stays outside the memory as the new anchor, as it does in plain decoding.
        """
        self._expect(TransactionState.VERIFIED, "commit")
        assert self._block is not None
        assert self._rows is not None
        block, rows, sequence, drafter = self._block, self._rows, self._parts.sequence, self._parts.drafter
        kept = rows.tokens[: len(block.emitted)]
        started_ns = time.perf_counter_ns()
        taps = None if drafter is None else rows.taps(len(kept))
        sequence.keep(kept, rows.evaluated_rows, self._target_mark, self._report)
        verified_ns = time.perf_counter_ns()
        if drafter is not None:
            committed = CommittedRows(
                seq_id=sequence.seq_id, start_pos=sequence.committed_tokens, tokens=kept, taps=taps
            )
            call_drafter("process", lambda: drafter.process(committed))
            if self._proposal.tokens:
                call_drafter("accept", lambda: drafter.accept(block.accepted_tokens, seq_id=sequence.seq_id))
        sequence.history.extend(block.emitted)
        sequence.clean = True
        self._state = TransactionState.COMMITTED
        self._parts.open_transaction = None
        self._count(block, verified_ns - started_ns, time.perf_counter_ns() - verified_ns)

    def rollback(self) -> None:
        """Step 7: return every state to the last committed round; safe to call again after an interruption."""
        if self._state in (TransactionState.COMMITTED, TransactionState.ROLLED_BACK):
            return
        self._state = TransactionState.ROLLING_BACK
        parts = self._parts
        try:
            if parts.drafter is not None:
                parts.drafter.restore(self._drafter_mark, seq_id=parts.sequence.seq_id)
            parts.sampler.restore(self._sampler_mark)
            if self._rows is not None and self._rows.touched:
                parts.sequence.go_back(self._target_mark)
            else:
                parts.sequence.clean = True
        except Exception as error:
            raise IntegrityError(
                f"the rollback itself failed: {error!r}", hint="close the session and open a new one"
            ) from error
        self._state = TransactionState.ROLLED_BACK
        parts.open_transaction = None

    def finish_rollback(self) -> None:
        """Complete a rollback that was interrupted; refuse nesting otherwise."""
        if self._state is not TransactionState.ROLLING_BACK:
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

    def _count(self, block: VerifiedBlock, verify_ns: int, draft_ns: int) -> None:
        report = self._report
        report.rounds += 1
        report.count_block(len(self._proposal.tokens), block.accepted_tokens)
        report.timings_ns.verify += verify_ns
        report.timings_ns.draft += draft_ns

    def _expect(self, state: TransactionState, operation: str) -> None:
        if self._state is not state:
            raise StateError(
                f"`{operation}` needs the state `{state.value}`, the transaction is `{self._state.value}`",
                state=self._state.value,
                operation=operation,
            )
