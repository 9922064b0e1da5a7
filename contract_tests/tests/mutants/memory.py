"""Faults in memories and in going back, of the target and of drafters. Areas CACHE and TXN."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import attrs

from mutants.planting import Passing, imported, mutant, replaced, wrapped_drafter
from power_core import sequence
from power_core.cache_state import Checkpoint, IntegrityReport
from power_core.errors import Cancelled, ContextFullError, RollbackRefused
from power_core.report import Report
from power_core.tokens import CommittedRows, SeqId

Sequence = sequence.TargetSequence
CHECKPOINT_HEAD_BYTES = 52
"""What stands before the first state row in a checkpoint of a tiny hybrid target."""


def context_type() -> Any:
    """Return the backend's context."""
    return imported("native", "context").NativeContext


# ----------------------------------------------------------------------------------------------------------- going back


@mutant("TXN-09", "ngram", ("hybrid", "attention"))
def rollback_keeps_one_rejected_row() -> Iterator[None]:
    """A rollback of the target keeps the first rejected row."""
    keep = Sequence.keep

    def keeping(self: Any, kept: Any, evaluated_rows: int, checkpoint: Any, report: Any) -> None:
        if len(kept) == evaluated_rows:
            return
        self.context.truncate(self.committed_tokens + len(kept) + 1, self.seq_id)
        self.history.append(self.history[-1])
        self.history.pop()

    with replaced(Sequence, "keep", keeping):
        yield
    assert keep is Sequence.keep


@mutant("TXN-09", "ngram", ("attention",))
def rejected_row_takes_the_place_of_a_kept_one() -> Iterator[None]:
    """A rollback drops one row too many and evaluates a rejected token in its place."""
    keep = Sequence.keep

    def swapping(self: Any, kept: Any, evaluated_rows: int, checkpoint: Any, report: Any) -> None:
        keep(self, kept, evaluated_rows, checkpoint, report)
        end = self.committed_tokens + len(kept)
        if len(kept) < evaluated_rows and self.context.can_truncate(end - 1, self.seq_id):
            self.context.truncate(end - 1, self.seq_id)
            self.evaluate([(kept[-1] + 1) % 97], end - 1)

    with replaced(Sequence, "keep", swapping):
        yield


def state_rows(data: bytes) -> list[tuple[int, int]]:
    """Return place and size of a checkpoint's state rows: the convolution of each layer, then the recurrent part."""
    rows, at = [], CHECKPOINT_HEAD_BYTES
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at + 4)
        rows.append((at + 12, size))
        at += 12 + size
    return rows


def with_convolution_of(state: Checkpoint, other: Checkpoint) -> Checkpoint:
    """Return a checkpoint whose convolution rows are another one's."""
    data, theirs = bytearray(state.data), bytes(other.data)
    rows = state_rows(bytes(data))
    convolution_bytes = min(size for _, size in rows)
    for at, size in rows:
        if size == convolution_bytes:
            data[at : at + size] = theirs[at : at + size]
    return attrs.evolve(state, data=bytes(data))


@mutant("CACHE-01", "ngram")
def convolution_window_not_restored() -> Iterator[None]:
    """Going back restores the recurrent state, and leaves the convolution's window of the rejected rows."""
    context = context_type()
    truncate = context.truncate

    def careless(self: Any, length_tokens: int, seq_id: SeqId = 0) -> None:
        drops = self.recurrent and 0 < length_tokens < self.length_tokens(seq_id)
        before = self.checkpoint(seq_id) if drops else None
        truncate(self, length_tokens, seq_id)
        if before is not None:
            self.restore(with_convolution_of(self.checkpoint(seq_id), before))

    with replaced(context, "truncate", careless):
        yield


@mutant("CACHE-03", "ngram")
def checkpoint_without_the_convolution() -> Iterator[None]:
    """A checkpoint brings the recurrent state back, but not the convolution's window."""
    context = context_type()
    restore = context.restore

    def careless(self: Any, checkpoint: Checkpoint) -> None:
        fits = self.recurrent and not self.is_stale(checkpoint.seq_id)
        now = self.checkpoint(checkpoint.seq_id) if fits and self.length_tokens(checkpoint.seq_id) else None
        whole = now is not None and len(now.data) == len(checkpoint.data)
        restore(self, with_convolution_of(checkpoint, now) if whole and now is not None else checkpoint)

    with replaced(context, "restore", careless):
        yield


@mutant("CACHE-01", "ngram", ("attention",))
def off_by_one_in_truncate() -> Iterator[None]:
    """`truncate` keeps one position more than it was told."""
    context = context_type()
    truncate = context.truncate

    def longer(self: Any, length_tokens: int, seq_id: SeqId = 0) -> None:
        truncate(self, min(length_tokens + 1, self.length_tokens(seq_id)), seq_id)

    with replaced(context, "truncate", longer):
        yield


@mutant("CACHE-05", "ngram", ("sliding-window",))
def off_by_one_at_the_edge_of_a_window() -> Iterator[None]:
    """`truncate` to a multiple of the window's length keeps one position more."""
    context = context_type()
    truncate = context.truncate

    def longer(self: Any, length_tokens: int, seq_id: SeqId = 0) -> None:
        more = length_tokens > 0 and length_tokens % 32 == 0
        truncate(self, min(length_tokens + more, self.length_tokens(seq_id)), seq_id)

    with replaced(context, "truncate", longer):
        yield


@mutant("TXN-08", "ngram")
def drafter_goes_back_one_token_short() -> Iterator[None]:
    """The drafter's own memory keeps one token more when it goes back."""
    drafter = imported("ngram", "drafter").NgramDrafter
    restore = drafter.restore

    def longer(self: Any, checkpoint: tuple[int, int], *, seq_id: SeqId = 0) -> None:
        restore(self, (checkpoint[0], checkpoint[1] + 1), seq_id=seq_id)

    with replaced(drafter, "restore", longer):
        yield


class SharesItsCheckpoint(Passing):
    """Takes a copy of everything as its checkpoint, and goes on with that very copy when it goes back."""

    def checkpoint(self, *, seq_id: SeqId = 0) -> Any:
        return deepcopy(self.inner._sequences[seq_id])  # type: ignore[attr-defined]

    def restore(self, checkpoint: Any, *, seq_id: SeqId = 0) -> None:
        self.inner._sequences[seq_id] = checkpoint  # type: ignore[attr-defined]


@mutant("TXN-08", "ngram")
def checkpoint_is_worked_on() -> Iterator[None]:
    """A drafter that went back changes its checkpoint from then on."""
    with wrapped_drafter("ngram", SharesItsCheckpoint):
        yield


class Unaware(Passing):
    def process(self, rows: CommittedRows) -> None:
        with suppress(Cancelled):
            self.inner.process(rows)


@mutant("TXN-05", "dspark")
def abort_in_process_is_swallowed() -> Iterator[None]:
    """A drafter whose feeding was aborted says nothing."""
    with wrapped_drafter("dspark", Unaware):
        yield


@mutant("TXN-03", "dspark")
def drafters_memory_is_not_cut_back() -> Iterator[None]:
    """A block drafter goes back by its own count and leaves the rows in its context."""
    graph = imported("native", "block_graph").BlockGraph

    def forgetful(self: Any, state: int, seq_id: SeqId) -> None:
        self._lengths_tokens[seq_id] = state

    with replaced(graph, "restore", forgetful):
        yield


@mutant("CACHE-02", "ngram", ("hybrid",))
def can_truncate_says_yes() -> Iterator[None]:
    """`can_truncate` says yes to everything."""
    with replaced(context_type(), "can_truncate", lambda self, length_tokens, seq_id=0: True):
        yield


@mutant("CACHE-02", "ngram", ("hybrid",))
def truncate_goes_as_far_as_it_can() -> Iterator[None]:
    """What cannot be dropped exactly is dropped as far as it can be, and nothing says so."""
    context = context_type()
    truncate = context.truncate

    def lenient(self: Any, length_tokens: int, seq_id: SeqId = 0) -> None:
        try:
            truncate(self, length_tokens, seq_id)
        except RollbackRefused:
            truncate(self, self.length_tokens(seq_id) - self.rollback_rows(seq_id), seq_id)

    with replaced(context, "truncate", lenient):
        yield


@mutant("TXN-04", "mtp")
def stale_memory_is_used() -> Iterator[None]:
    """A memory that an abort left half-written counts as clean."""

    def careless(self: Any, checkpoint: Any) -> None:
        if not self.context.is_stale(self.seq_id):
            self.context.truncate(self.committed_tokens, self.seq_id)
        self.clean = True

    with replaced(Sequence, "go_back", careless):
        yield


# ---------------------------------------------------------------------------------------------- capacity, two sequences


@mutant("CACHE-04", "ngram")
def rows_beyond_the_context_are_dropped() -> Iterator[None]:
    """Rows that do not fit into the context are dropped in silence."""
    context = context_type()
    evaluate = context.evaluate

    def silent(self: Any, sequences: Any, *, kernels: Any) -> None:
        with suppress(ContextFullError):
            evaluate(self, sequences, kernels=kernels)

    with replaced(context, "evaluate", silent):
        yield


@mutant("CACHE-06", "ngram", ("attention",))
def truncate_looks_at_sequence_0() -> Iterator[None]:
    """`truncate` works on sequence 0, whichever was meant."""
    context = context_type()
    truncate = context.truncate

    def first(self: Any, length_tokens: int, seq_id: SeqId = 0) -> None:
        truncate(self, min(length_tokens, self.length_tokens(0)), 0)

    with replaced(context, "truncate", first):
        yield


@mutant("CACHE-07", "ngram", ("attention",))
def clear_forgets_every_sequence() -> Iterator[None]:
    """`clear` of one sequence clears the others too."""
    context = context_type()
    clear = context.clear

    def all_of_them(self: Any, seq_id: SeqId = 0) -> None:
        for each in range(self.sequences):
            clear(self, each)

    with replaced(context, "clear", all_of_them):
        yield


@mutant("CACHE-07", "ngram")
def integrity_is_never_looked_at() -> Iterator[None]:
    """`check_integrity` reports what it reported first."""
    context = context_type()
    check, known = context.check_integrity, {}

    def remembered(self: Any, seq_id: SeqId = 0) -> IntegrityReport:
        return known.setdefault((id(self), seq_id), check(self, seq_id))

    with replaced(context, "check_integrity", remembered):
        yield


# ------------------------------------------------------------------------------------------------------ replay, rebuild


@mutant("CACHE-09", "ngram")
def replay_of_generated_tokens_by_prefill_kernels() -> Iterator[None]:
    """A rebuild evaluates generated tokens with the prompt's kernels."""
    slices = Sequence._evaluate_in_slices

    def fast(self: Any, tokens: Any, start_pos: int) -> int:
        rows = sequence.SequenceRows(seq_id=self.seq_id, start_pos=start_pos, tokens=tokens)
        if tokens:
            self.context.evaluate((rows,), kernels="prefill")
        return -(-len(tokens) // self.slice_rows)

    with replaced(Sequence, "_evaluate_in_slices", fast):
        yield
    assert slices is Sequence._evaluate_in_slices


@mutant("CACHE-08", "ngram")
def replay_forgets_the_last_token() -> Iterator[None]:
    """A replay leaves the last kept token out."""
    slices = Sequence._evaluate_in_slices

    def short(self: Any, tokens: Any, start_pos: int) -> int:
        return slices(self, tokens[:-1], start_pos)

    with replaced(Sequence, "_evaluate_in_slices", short):
        yield


@mutant("CACHE-08", "ngram")
def replay_is_not_reported() -> Iterator[None]:
    """A replay is neither counted nor named among the events."""
    keep, add = Sequence.keep, Report.add_event

    def quiet(self: Any, kept: Any, evaluated_rows: int, checkpoint: Any, report: Any) -> None:
        before = report.replays
        keep(self, kept, evaluated_rows, checkpoint, report)
        report.replays = before

    def quieter(self: Any, event: str, **details: Any) -> None:
        if event != "replay":
            add(self, event, **details)

    with replaced(Sequence, "keep", quiet), replaced(Report, "add_event", quieter):
        yield
