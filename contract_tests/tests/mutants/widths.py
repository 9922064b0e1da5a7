"""Faults in draft widths, in slices, and in what is claimed of them. Areas SCHED, NUM, TXN and VERIFY."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutants.planting import mutant, replaced
from power_core import generation, opening, sequence, transaction
from power_core.exactness import guarantor, margin_guard, stance
from power_core.report import Report
from power_core.scheduling import RoundOutcome, adaptive

Generation = generation.Generation
Transaction = transaction.VerifyTransaction

# ----------------------------------------------------------------------------------------------------------- schedulers


@mutant("SCHED-01", "ngram")
def adaptive_forgets_the_budget() -> Iterator[None]:
    """The adaptive scheduler asks for its width, whatever remains."""
    with replaced(adaptive, "bounded_draft_len", lambda wanted, tokens, context: wanted):
        yield


@mutant("SCHED-07", "ngram")
def rounds_without_drafts_are_not_handed_over() -> Iterator[None]:
    """The drafter does not learn of what a round without drafts committed."""
    commit = Transaction.commit

    def hasty(self: Any) -> None:
        drafter = self._parts.drafter
        if not self._proposal.tokens:
            self._parts.drafter = None
        try:
            commit(self)
        finally:
            self._parts.drafter = drafter

    with replaced(Transaction, "commit", hasty):
        yield


@mutant("SCHED-08", "ngram")
def rounds_without_drafts_are_not_learned() -> Iterator[None]:
    """A scheduler learns only of rounds that drafted."""
    observe = Generation._observe

    def selective(self: Any, outcome: RoundOutcome) -> None:
        if outcome.drafted_tokens:
            observe(self, outcome)

    with replaced(Generation, "_observe", selective):
        yield


@mutant("SCHED-09", "ngram")
def any_scheduler_will_do() -> Iterator[None]:
    """A strategy runs with a scheduler that it did not register."""
    with replaced(opening, "refuse_foreign_settings", lambda settings, resolved: None):
        yield


@mutant("NUM-06", "ngram")
def decisions_are_not_told() -> Iterator[None]:
    """The first decision of a request stands in its report, and no later one."""
    add = Report.add_decision

    def first_only(self: Report, decision: Any) -> None:
        if not self.decisions:
            add(self, decision)

    with replaced(Report, "add_decision", first_only):
        yield


# --------------------------------------------------------------------------------------------------------------- slices


@mutant("NUM-07", "ngram")
def claims_fewer_rows_than_it_uses() -> Iterator[None]:
    """The guarantee names one row less than a slice may have."""
    words = stance.bit_identical
    with replaced(stance, "bit_identical", lambda rows: words(max(1, rows - 1))):
        yield


@mutant("NUM-08", "ngram")
def claims_what_was_not_measured() -> Iterator[None]:
    """The width that was planned counts as measured."""
    with replaced(guarantor.Guarantor, "_widest_rows", lambda self: self._planned_rows):
        yield


@mutant("NUM-08", "ngram")
def guard_vouches_for_draws() -> Iterator[None]:
    """A request that draws is guarded as if its choices were greedy."""
    take_stance = guarantor.take_stance

    def generous(arithmetic: Any, **facts: Any) -> Any:
        return take_stance(arithmetic, **{**facts, "greedy": True})

    with replaced(guarantor, "take_stance", generous):
        yield


@mutant("NUM-08", "ngram")
def fast_arithmetic_claims_what_it_measured() -> Iterator[None]:
    """Fast arithmetic claims bit-identity for the width that was measured."""
    take_stance = guarantor.take_stance

    def proud(arithmetic: Any, **facts: Any) -> Any:
        return take_stance("exact" if arithmetic == "fast" else arithmetic, **facts)

    with replaced(guarantor, "take_stance", proud):
        yield


@mutant("VERIFY-11", "ngram")
def near_ties_are_drawn_from_the_slice() -> Iterator[None]:
    """A near-tie is counted as decided again and drawn from the wide slice all the same."""

    def pretending(self: Any, row: int) -> None:
        self.guarded_rows += 1

    with replaced(margin_guard.GuardedRows, "_evaluate_singly", pretending):
        yield


@mutant("VERIFY-11", "ngram")
def noise_is_underrated() -> Iterator[None]:
    """Margins of a quarter of the measured noise count as safe."""
    with replaced(guarantor, "NOISE_MULTIPLE", 0.25):
        yield


@mutant("VERIFY-10", "ngram")
def drafts_are_verified_by_prefill_kernels() -> Iterator[None]:
    """Drafts are evaluated with the prompt's kernels."""

    def fast(self: Any, tokens: Any, start_pos: int) -> None:
        rows = sequence.SequenceRows(seq_id=self.seq_id, start_pos=start_pos, tokens=tokens)
        self.context.evaluate((rows,), kernels="prefill")

    with replaced(sequence.TargetSequence, "evaluate", fast):
        yield


class DecodesPrompts:
    """Passes everything on, and evaluates prompts as if they were drafts."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def evaluate(self, sequences: Any, *, kernels: str) -> None:
        self._inner.evaluate(sequences, kernels="decode")


@mutant("VERIFY-10", "ngram")
def prompts_by_decode_kernels() -> Iterator[None]:
    """Prompts are evaluated with the kernels of single rows."""
    prefill = sequence.TargetSequence._prefill

    def slow(self: Any, *arguments: Any) -> int:
        context, self.context = self.context, DecodesPrompts(self.context)
        try:
            return prefill(self, *arguments)
        finally:
            self.context = context

    with replaced(sequence.TargetSequence, "_prefill", slow):
        yield


@mutant("VERIFY-09", "ngram")
def padding_stays() -> Iterator[None]:
    """Rows that fill a slice up stay in the memory."""
    evaluate = sequence.BlockRows._evaluate_rows

    def forgetful(self: Any, row: int, n_rows: int, **how: Any) -> None:
        evaluate(self, row, n_rows, **how)
        self.evaluated_rows = min(self.evaluated_rows, len(self.tokens))

    with replaced(sequence.BlockRows, "_evaluate_rows", forgetful):
        yield


@mutant("TXN-12", "dspark")
def rows_decided_again_arrive_twice() -> Iterator[None]:
    """The hidden rows of what is evaluated again stay in the list that the drafter gets."""
    start_over = sequence.BlockRows._start_over

    def keeping(self: Any, checkpoint: Any) -> None:
        taps = list(self._taps)
        start_over(self, checkpoint)
        self._taps = taps

    with replaced(sequence.BlockRows, "_start_over", keeping):
        yield
