"""Faults in the backend's wrapper and in its samplers. Areas NATIVE and SAMPLE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from mutants.planting import Passing, changed_specs, imported, mutant, replaced
from power_core.errors import PowerError, StateError
from power_core.generation import Generation
from power_core.logprobs import RecordingSampler
from power_core.tokens import SequenceRows

# --------------------------------------------------------------------------------------------------------------- SAMPLE


@mutant("SAMPLE-03", "ngram")
def snapshot_is_the_state_itself() -> Iterator[None]:
    """A sampler's snapshot is its live state."""
    sampler = imported("native", "sampler").NativeSampler
    with replaced(sampler, "snapshot", lambda self: self._state):
        yield


@mutant("SAMPLE-05", "ngram")
def random_state_shared_by_two_sequences() -> Iterator[None]:
    """All samplers of a context draw from one random state."""
    context = imported("native", "context").NativeContext
    opened, known = context.open_sampler, {}

    def shared(self: Any, settings: Any) -> Any:
        sampler = opened(self, settings)
        if getattr(sampler, "_state", None) is None or self.sequences < 2:
            return sampler
        first = known.setdefault(id(self), sampler)
        return sampler if first is sampler else SharedState(first, sampler)

    with replaced(context, "open_sampler", shared):
        yield


class SharedState:
    """A sampler that begins with a state of its own and draws from another's."""

    def __init__(self, first: Any, own: Any) -> None:
        self._first = first
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def begin(self, prompt: Any) -> None:
        """Leave the shared state as it is."""

    def close(self) -> None:
        """Close what is its own."""
        self._own.close()


@mutant("SAMPLE-03", "ngram")
def begin_keeps_the_random_state() -> Iterator[None]:
    """A sampler goes on drawing where the request before ended."""
    sampler = imported("native", "sampler").NativeSampler
    begin = sampler.begin

    def once(self: Any, prompt: Any) -> None:
        if not getattr(self, "_begun", False):
            self._begun = True
            begin(self, prompt)

    with replaced(sampler, "begin", once):
        yield


@mutant("SAMPLE-07", "ngram")
def bias_and_grammar_are_dropped() -> Iterator[None]:
    """Logit biases and grammars do not reach the sampler."""
    context = imported("native", "context").NativeContext
    opened = context.open_sampler

    def without(self: Any, settings: Any) -> Any:
        return opened(self, attrs.evolve(settings, logit_bias=(), grammar="", grammar_file=None))

    with replaced(context, "open_sampler", without):
        yield


@mutant("SAMPLE-08", "ngram")
def records_outlive_their_round() -> Iterator[None]:
    """The log-probabilities of a round that was left stay among the others."""

    def careless(self: Any, snapshot: Any) -> None:
        self._sampler.restore(snapshot[0])

    with replaced(RecordingSampler, "restore", careless):
        yield


@mutant("SAMPLE-09", "ngram")
def end_of_a_grammar_reads_as_a_stop_token() -> Iterator[None]:
    """A request whose grammar ended says that it met a stop token."""
    finish = Generation._finish

    def vague(self: Any, reason: Any) -> None:
        finish(self, "stop_token" if reason == "grammar_end" else reason)

    with replaced(Generation, "_finish", vague):
        yield


@mutant("SAMPLE-09", "ngram")
def end_inside_a_block_is_passed() -> Iterator[None]:
    """An end token counts only where it is the last token of its block."""
    is_end = Generation._is_end

    def late(self: Any, token: int) -> bool:
        sequence = self._parts.sequence
        return sequence.handed_out == len(sequence.history) - 1 and is_end(self, token)

    with replaced(Generation, "_is_end", late):
        yield


@mutant("SAMPLE-10", "ngram")
def stop_token_is_lost_when_a_request_goes_on() -> Iterator[None]:
    """A stop token counts as handed out."""
    finish = Generation._finish

    def greedy(self: Any, reason: Any) -> None:
        finish(self, reason)
        if reason == "stop_token":
            self._parts.sequence.handed_out += 1

    with replaced(Generation, "_finish", greedy):
        yield


@mutant("SAMPLE-10", "ngram")
def stop_token_ends_a_block_only_as_a_draft() -> Iterator[None]:
    """A correction or bonus that is a stop token is emitted."""
    is_end = Generation._is_end

    def late(self: Any, token: int) -> bool:
        sequence = self._parts.sequence
        last = sequence.handed_out == len(sequence.history) - 1 and token == sequence.history[-1]
        return is_end(self, token) and not (last and token in self._request.stop_tokens)

    with replaced(Generation, "_is_end", late):
        yield


@mutant("SAMPLE-11", "ngram")
def newest_snapshot_is_restored() -> Iterator[None]:
    """A sampler goes back to its newest snapshot, whichever was meant."""
    sampler = imported("native", "sampler").NativeSampler
    snapshot, restore = sampler.snapshot, sampler.restore

    def remembering(self: Any) -> Any:
        self._newest = snapshot(self)
        return self._newest

    def forgetful(self: Any, meant: Any) -> None:
        restore(self, getattr(self, "_newest", meant))

    with replaced(sampler, "snapshot", remembering), replaced(sampler, "restore", forgetful):
        yield


# --------------------------------------------------------------------------------------------------------------- NATIVE


@mutant("NATIVE-02", "ngram")
def refused_rows_clear_the_sequence() -> Iterator[None]:
    """A refused evaluation clears the sequence."""
    context = imported("native", "context").NativeContext
    evaluate = context.evaluate

    def clearing(self: Any, sequences: Any, *, kernels: Any) -> None:
        try:
            evaluate(self, sequences, kernels=kernels)
        except PowerError:
            if not self.closed and sequences[0].seq_id == 0:
                self.clear(0)
            raise

    with replaced(context, "evaluate", clearing):
        yield


@mutant("NATIVE-03", "ngram")
def blocks_by_prefill_kernels() -> Iterator[None]:
    """A block of rows is computed with the prompt's kernels."""
    context = imported("native", "context").NativeContext
    evaluate = context.evaluate

    def fast(self: Any, sequences: Any, *, kernels: Any) -> None:
        rows = sum(len(each.tokens) for each in sequences)
        evaluate(self, sequences, kernels="prefill" if rows > 1 else kernels)

    with replaced(context, "evaluate", fast):
        yield


@mutant("NATIVE-04", "ngram")
def calls_of_two_threads_queue_up() -> Iterator[None]:
    """A second thread waits for the first instead of being refused."""
    gate = imported("native", "_handles").ExclusiveGate
    init = gate.__init__

    def patient(self: Any) -> None:
        init(self)
        acquire = self.enter
        self.enter = lambda blocking=True: acquire(True)

    with replaced(gate, "__init__", patient):
        yield


@mutant("NATIVE-05", "ngram")
def second_close_of_a_handle_fails() -> Iterator[None]:
    """A native handle cannot be closed twice."""
    handle = imported("native", "_handles").NativeHandle
    close = handle.close

    def strict(self: Any) -> None:
        if self.closed:
            raise StateError("the handle is closed")
        close(self)

    with replaced(handle, "close", strict):
        yield


@mutant("NATIVE-06", "dflash", ("attention",))
def drafter_uses_the_targets_context() -> Iterator[None]:
    """The drafter evaluates a row on the target's own context and takes it back."""

    def change(spec: Any) -> Any:
        def create(context: Any) -> Any:
            target = context.target_context

            class Guest(Passing):
                def propose(self, request: Any) -> Any:
                    start = target.length_tokens(request.seq_id)
                    if start + 1 < target.ctx_tokens and not target.recurrent:
                        rows = SequenceRows(seq_id=request.seq_id, start_pos=start, tokens=[request.anchor])
                        target.evaluate((rows,), kernels="decode")
                        target.truncate(start, request.seq_id)
                    return self.inner.propose(request)

            return Guest(spec.create_drafter(context))

        return attrs.evolve(spec, create_drafter=create)

    with changed_specs("dflash", change):
        yield
