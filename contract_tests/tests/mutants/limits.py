"""Faults in the core's limits and figures. Areas SCHED and NUM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from mutants.planting import mutant, replaced
from power_core import generation, planning, sequence
from power_core.report import Report
from power_core.scheduling import fixed, guarded
from power_core.settings import SessionSettings

Generation = generation.Generation


# ---------------------------------------------------------------------------------------------------------------- SCHED


@mutant("SCHED-01", "ngram")
def budget_forgets_the_targets_own_token() -> Iterator[None]:
    """A round may draft as many tokens as remain, although the target adds one."""

    def generous(wanted: int, remaining_tokens: int, remaining_context: int) -> int:
        return max(0, min(wanted, remaining_tokens, remaining_context))

    with replaced(fixed, "bounded_draft_len", generous):
        yield


@mutant("SCHED-03", "ngram")
def context_is_forgotten() -> Iterator[None]:
    """A round may draft beyond the context."""
    with replaced(fixed, "bounded_draft_len", lambda wanted, tokens, context: max(0, min(wanted, tokens - 1))):
        yield


@mutant("SCHED-02", "ngram")
def emits_one_token_too_many() -> Iterator[None]:
    """A request emits one token more than it may."""
    init = Generation.__init__

    def generous(self: Any, *, request: Any, **rest: Any) -> None:
        init(self, request=attrs.evolve(request, max_tokens=request.max_tokens + 1), **rest)

    with replaced(Generation, "__init__", generous):
        yield


@mutant("SCHED-04", "ngram")
def guard_never_clamps() -> Iterator[None]:
    """The width is not clamped after a replay."""
    with replaced(guarded.GuardedScheduler, "observe", lambda self, outcome: None):
        yield


@mutant("SCHED-05", "ngram")
def short_proposals_are_kept() -> Iterator[None]:
    """`draft_min` drops nothing."""
    init = generation.DraftRequest

    def shortest(**values: Any) -> Any:
        return init(**{**values, "min_tokens": 0})

    with replaced(generation, "DraftRequest", shortest):
        yield


@mutant("SCHED-06", "dspark")
def draft_max_lowered_in_silence() -> Iterator[None]:
    """A K above what the files allow is lowered, and nothing says so."""

    def silent(settings: SessionSettings, resolved: Any, most_drafts: int | None, events: Any) -> int:
        wanted = settings.draft_max or resolved.spec.default_draft_max_tokens
        return wanted if most_drafts is None else min(wanted, most_drafts)

    from power_core import opening

    with replaced(opening, "draft_max_in_force", silent), replaced(planning, "draft_max_in_force", silent):
        yield


# ------------------------------------------------------------------------------------------------------------------ NUM


@mutant("NUM-01", "ngram")
def histogram_counts_one_more() -> Iterator[None]:
    """The histogram counts an accepted prefix one token longer."""
    count = Report.count_block

    def shifted(self: Report, drafted_tokens: int, accepted_tokens: int) -> None:
        count(self, drafted_tokens, accepted_tokens)
        histogram = self.accepted_prefix_histogram
        histogram[accepted_tokens] -= 1
        histogram[accepted_tokens + 1] = histogram.get(accepted_tokens + 1, 0) + 1

    with replaced(Report, "count_block", shifted):
        yield


@mutant("NUM-02", "ngram")
def verified_counts_the_rounds_twice() -> Iterator[None]:
    """The verified tokens count the target's own token twice."""
    run = Generation._run_round

    def twice(self: Any) -> None:
        run(self)
        self.report.verified_tokens += 1

    with replaced(Generation, "_run_round", twice):
        yield


@mutant("NUM-03", "ngram")
def pieces_counted_twice() -> Iterator[None]:
    """The emitted tokens count every piece twice."""
    deliver = Generation._deliver

    def twice(self: Any) -> Any:
        piece = deliver(self)
        self.report.emitted_tokens += piece is not None
        return piece

    with replaced(Generation, "_deliver", twice):
        yield


@mutant("NUM-04", "ngram")
def calls_counted_as_rows() -> Iterator[None]:
    """The target calls count rows."""
    evaluate = sequence.BlockRows._evaluate_slice

    def counting(self: Any, row: int) -> None:
        evaluate(self, row)
        self.calls += self.evaluated_rows - row - 1

    with replaced(sequence.BlockRows, "_evaluate_slice", counting):
        yield


@mutant("NUM-05", "ngram")
def acceptance_per_round() -> Iterator[None]:
    """The acceptance rate divides by rounds."""
    rate = property(lambda self: self.accepted_tokens / max(1, self.rounds))
    with replaced(Report, "acceptance_rate", rate):
        yield
