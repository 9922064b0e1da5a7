"""Faults at the native boundary: the library's own functions answer wrongly, everything in Python is as it is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from mutants.memory import state_rows
from mutants.planting import imported, mutant, replaced

STATE_BYTES = 4 * 256
"""A state row of the tiny targets: 256 numbers."""

Fault = Callable[..., int]
"""``fault(function, *arguments)`` stands for a call of the function with these arguments; it returns the status."""


def interposed(symbol: str, fault: Fault) -> AbstractContextManager[None]:
    """Let ``fault`` stand between Python and a function of the library."""
    functions = imported("native", "_loader").library().functions
    function = getattr(functions, symbol)
    return replaced(functions, symbol, lambda *arguments: fault(function, *arguments))


def sequence_of(context: Any, seq_id: int) -> Any:
    """Ask the library what a sequence holds."""
    loader, raw = imported("native", "_loader"), imported("native", "_raw")
    info = raw.power_sequence_info(size=ctypes.sizeof(raw.power_sequence_info))
    loader.library().call("power_sequence_get", context, seq_id, ctypes.byref(info))
    return info


def last_rows() -> tuple[dict[Any, int], AbstractContextManager[None]]:
    """Return the row count of each context's last evaluation, by address, and what keeps the account."""
    counts: dict[Any, int] = {}

    def counting(function: Any, context: Any, rows: Any, error: Any) -> int:
        counts[context.value] = rows._obj.n_rows
        return int(function(context, rows, error))

    return counts, interposed("power_evaluate", counting)


# ------------------------------------------------------------------------------------------------ memory and going back


class SurplusRows:
    """A memory that keeps one rejected row at every truncation, and counts positions as if it did not."""

    def __init__(self) -> None:
        self._surplus: dict[tuple[Any, int], int] = {}

    def truncate(self, function: Any, context: Any, seq_id: int, length_tokens: int, error: Any) -> int:
        """Keep one row more than was asked for, where there is one."""
        surplus = self._surplus.get((context.value, seq_id), 0)
        held = sequence_of(context, seq_id).length_tokens
        more = int(0 < length_tokens < held)
        self._surplus[context.value, seq_id] = (surplus + more) * (length_tokens > 0)
        return int(function(context, seq_id, length_tokens + self._surplus[context.value, seq_id], error))

    def clear(self, function: Any, context: Any, seq_id: int, error: Any) -> int:
        """Clear everything."""
        self._surplus.pop((context.value, seq_id), None)
        return int(function(context, seq_id, error))

    def tell(self, function: Any, context: Any, seq_id: int, info: Any, error: Any) -> int:
        """Leave the surplus rows out."""
        status = int(function(context, seq_id, info, error))
        surplus = self._surplus.get((context.value, seq_id), 0)
        info._obj.length_tokens -= surplus
        info._obj.expected_tokens -= surplus
        return status

    def evaluate(self, function: Any, context: Any, rows: Any, error: Any) -> int:
        """Evaluate behind the surplus rows."""
        asked = rows._obj
        shifts = [self._surplus.get((context.value, asked.seq_ids[row]), 0) for row in range(asked.n_rows)]
        for row, shift in enumerate(shifts):
            asked.positions[row] += shift
        status = int(function(context, rows, error))
        for row, shift in enumerate(shifts):
            asked.positions[row] -= shift
        return status


@mutant("CACHE-01", "ngram", ("attention", "hybrid"))
def library_keeps_one_rejected_row() -> Iterator[None]:
    """The library's truncation keeps the first rejected row, and nothing that the library says tells of it."""
    memory = SurplusRows()
    with (
        interposed("power_memory_truncate", memory.truncate),
        interposed("power_memory_clear", memory.clear),
        interposed("power_sequence_get", memory.tell),
        interposed("power_evaluate", memory.evaluate),
    ):
        yield


def saved_state(context: Any, seq_id: int, size_bytes: int) -> Any:
    """Return a checkpoint of the sequence, None when the library makes none of that size now."""
    library = imported("native", "_loader").library()
    data, size = (ctypes.c_uint8 * size_bytes)(), ctypes.c_uint64()
    if sequence_of(context, seq_id).stale or not sequence_of(context, seq_id).length_tokens:
        return None
    library.call("power_checkpoint_size", context, seq_id, ctypes.byref(size))
    if size.value != size_bytes:
        return None
    library.call("power_checkpoint_save", context, seq_id, data, size_bytes, ctypes.byref(size))
    return data


@mutant("CACHE-03", "ngram")
def library_restores_all_but_the_convolution() -> Iterator[None]:
    """The library restores a checkpoint's recurrent state and leaves the convolution's window as it is."""

    def careless(function: Any, context: Any, seq_id: int, data: Any, size_bytes: int, *rest: Any) -> int:
        now = saved_state(context, seq_id, size_bytes)
        if now is not None:
            mixed = bytearray(ctypes.string_at(data, size_bytes))
            rows = state_rows(bytes(mixed))
            smallest = min((size for _, size in rows), default=0)
            for place, size in rows:
                if size == smallest:
                    mixed[place : place + size] = bytes(now)[place : place + size]
            data = (ctypes.c_uint8 * size_bytes).from_buffer(mixed)
        return int(function(context, seq_id, data, size_bytes, *rest))

    with interposed("power_checkpoint_restore", careless):
        yield


@mutant("NATIVE-03", "ngram", ("attention",))
def exact_switch_does_nothing() -> Iterator[None]:
    """The library takes the order to compute exactly and goes on with its fast kernels."""
    with interposed("power_context_set_exact", lambda function, context, on, error: function(context, 0, error)):
        yield


# ---------------------------------------------------------------------------------------------------------- row outputs


@mutant("VERIFY-01", "ngram")
def choices_are_those_of_the_next_row() -> Iterator[None]:
    """The largest logit is looked for one row too late, where there is one more."""
    counts, account = last_rows()

    def later(function: Any, context: Any, row: int, *rest: Any) -> int:
        return int(function(context, row + (row + 1 < counts.get(context.value, 0)), *rest))

    with account, interposed("power_argmax", later):
        yield


@mutant("SAMPLE-01", "ngram")
def draws_are_those_of_the_next_row() -> Iterator[None]:
    """A sampler draws one row too late, where there is one more."""
    counts, account = last_rows()

    def later(function: Any, sampler: Any, context: Any, row: int, *rest: Any) -> int:
        return int(function(sampler, context, row + (row + 1 < counts.get(context.value, 0)), *rest))

    with account, interposed("power_sampler_sample", later):
        yield


@mutant("DRAFT-09", "mtp")
def last_state_row_is_of_the_rejected_suffix() -> Iterator[None]:
    """Of the state rows that are read the last one is the row behind it, where there is one."""
    counts, account = last_rows()

    def shifted(function: Any, context: Any, first_row: int, n_rows: int, out: Any, error: Any) -> int:
        status = int(function(context, first_row, n_rows, out, error))
        if status == 0 and first_row + n_rows < counts.get(context.value, 0):
            last = ctypes.cast(ctypes.byref(out.contents, STATE_BYTES * (n_rows - 1)), type(out))
            status = int(function(context, first_row + n_rows, 1, last, error))
        return status

    with account, interposed("power_read_nextn", shifted):
        yield


@mutant("DRAFT-09", "dflash")
def hidden_rows_are_those_of_the_next_rows() -> Iterator[None]:
    """Hidden rows are read one row too late, where there is one more."""
    counts, account = last_rows()

    def later(function: Any, context: Any, layers: Any, n_layers: int, first_row: int, n_rows: int, *rest: Any) -> int:
        shift = first_row + n_rows < counts.get(context.value, 0)
        return int(function(context, layers, n_layers, first_row + shift, n_rows, *rest))

    with account, interposed("power_read_layers", later):
        yield


# ------------------------------------------------------------------------------------------------ samplers and drafting


@mutant("SAMPLE-03", "ngram")
def copy_of_a_sampler_starts_anew() -> Iterator[None]:
    """A copy of a sampler has the random state and windows of the beginning."""
    library = imported("native", "_loader").library()

    def forgetful(function: Any, sampler: Any, copy: Any, error: Any) -> int:
        status = int(function(sampler, copy, error))
        library.call("power_sampler_reset", copy._obj)
        return status

    with interposed("power_sampler_clone", forgetful):
        yield


@mutant("DRAFT-12", "dspark")
def block_is_read_one_row_late() -> Iterator[None]:
    """A block's drafts are chosen at the rows behind those that were asked for."""

    def late(function: Any, context: Any, block: Any, error: Any) -> int:
        asked = block._obj
        asked.first_row += 1
        asked.max_tokens = max(1, min(asked.max_tokens, asked.n_rows - asked.first_row))
        status = int(function(context, block, error))
        asked.first_row -= 1
        return status

    with interposed("power_draft_block", late):
        yield


@mutant("DRAFT-07", "mtp")
def chain_starts_from_the_last_rounds_state() -> Iterator[None]:
    """A chain of drafts begins with the state row of the chain before."""
    states: dict[Any, Any] = {}

    def stale(function: Any, context: Any, chain: Any, error: Any) -> int:
        asked = chain._obj
        now = ctypes.string_at(asked.state, STATE_BYTES)
        ctypes.memmove(asked.state, states.get(context.value, now), STATE_BYTES)
        states[context.value] = now
        return int(function(context, chain, error))

    with interposed("power_draft_chain", stale):
        yield


@mutant("VERIFY-12", "mtp")
def correction_of_a_whole_round_counts_as_accepted() -> Iterator[None]:
    """A round in one call counts its correction among the accepted drafts."""

    def generous(function: Any, context: Any, sheet: Any, error: Any) -> int:
        status = int(function(context, sheet, error))
        told = sheet._obj
        told.accepted += status == 0 and told.accepted < told.drafted
        return status

    with interposed("power_run_round", generous):
        yield


@mutant("VERIFY-12", "dspark")
def whole_rounds_feed_hidden_rows_of_another_layer() -> Iterator[None]:
    """A round in one call reads the hidden rows of one layer for all layers."""

    def confused(function: Any, context: Any, sheet: Any, error: Any) -> int:
        layers, first = sheet._obj.layers, sheet._obj.layers[1]
        kept, layers[1] = first, layers[0]
        status = int(function(context, sheet, error))
        layers[1] = kept
        return status

    with interposed("power_run_round", confused):
        yield


@mutant("VERIFY-12", "mtp")
def whole_rounds_start_from_another_state_row() -> Iterator[None]:
    """A round in one call begins its chain with the state row of the anchor's second predecessor."""

    def earlier(function: Any, context: Any, sheet: Any, error: Any) -> int:
        asked = sheet._obj
        shift = asked.features_row > 0
        asked.features_row -= shift
        status = int(function(context, sheet, error))
        asked.features_row += shift
        return status

    with interposed("power_run_round", earlier):
        yield


@mutant("VERIFY-12", "dspark")
def whole_rounds_take_the_largest_logit_whatever_the_sampler() -> Iterator[None]:
    """A round in one call forgets the sampler that it was given."""

    def greedy(function: Any, context: Any, sheet: Any, error: Any) -> int:
        asked = sheet._obj
        sampler, asked.sampler = asked.sampler, None
        status = int(function(context, sheet, error))
        asked.sampler = sampler
        return status

    with interposed("power_run_round", greedy):
        yield
