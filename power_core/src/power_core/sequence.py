"""One sequence of the target: its committed history, and the means to have exactly that in the context's memory.

::

    history   p0 p1 ... pn | t1 t2 ... tk | anchor
    memory    <- prefill ->  <- exact  ->   (not evaluated yet)

The last token of the history is always the anchor: emitted, not evaluated. Everything before it is in the memory.
``handed_out`` counts the tokens of the history that the caller has: the prompt's and those that were given to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from power_core.cache_state import Checkpoint
from power_core.errors import RollbackRefused, StateError
from power_core.report import Report
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SeqId, SequenceRows, Taps, TokenId


class TargetSequence:
    """Evaluates, truncates, replays and rebuilds one sequence; only a start and a commit change its history."""

    def __init__(
        self,
        context: TargetContext,
        *,
        slice_rows: int,
        taps: bool = False,
        seq_id: SeqId = 0,
        fixed_shape: bool = False,
    ) -> None:
        self.context = context
        self.seq_id = seq_id
        self.slice_rows = slice_rows
        self.fixed_shape = fixed_shape
        self.taps = taps
        self.history: list[TokenId] = []
        self.prompt_tokens = 0
        self.handed_out = 0
        self.clean = False

    @property
    def committed_tokens(self) -> int:
        """Tokens that the memory holds when the sequence is ready."""
        return len(self.history) - 1

    def forget(self) -> None:
        """Drop the history; there is nothing to continue until a new prompt was evaluated."""
        self.history = []
        self.clean = False

    def start(
        self,
        prompt: Sequence[TokenId],
        *,
        on_rows: Callable[[CommittedRows], None] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Evaluate a new prompt in chunks with prefill kernels; return the row that holds its last logits.

        Every chunk's rows go to ``on_rows``, in order. The caller samples the first token and passes it to ``begin``.
        """
        self.forget()
        self.prompt_tokens = self.handed_out = len(prompt)
        self.context.clear(self.seq_id)
        return self._prefill(prompt, on_rows, on_progress)

    def begin(self, prompt: Sequence[TokenId], first: TokenId) -> None:
        """Record the evaluated prompt and the first sampled token, which becomes the anchor."""
        self.history = [*prompt, first]
        self.clean = True

    def evaluate(self, tokens: Sequence[TokenId], start_pos: int) -> None:
        """Evaluate rows exactly, all with logits."""
        self.context.evaluate((SequenceRows(seq_id=self.seq_id, start_pos=start_pos, tokens=tokens),), kernels="decode")

    def checkpoint(self) -> Checkpoint:
        """Copy what truncation cannot rebuild."""
        return self.context.checkpoint(self.seq_id)

    def keep(self, kept: Sequence[TokenId], evaluated_rows: int, checkpoint: Checkpoint | None, report: Report) -> None:
        """Leave exactly the committed history plus ``kept`` in the memory after ``evaluated_rows`` were written.

        Truncates where that is exact; otherwise replays: from the checkpoint when there is one, else by a rebuild.
        """
        if len(kept) == evaluated_rows:
            return
        start_pos = self.committed_tokens
        try:
            self.context.truncate(start_pos + len(kept), self.seq_id)
            return
        except RollbackRefused:
            report.replays += 1
            report.add_event(
                "replay", rejected_rows=evaluated_rows - len(kept), means="checkpoint" if checkpoint else "rebuild"
            )
        if checkpoint is None:
            report.target_calls += self.rebuild()
        else:
            self.context.restore(checkpoint)
        report.target_calls += self._evaluate_in_slices(kept, start_pos)

    def go_back(self, checkpoint: Checkpoint | None) -> None:
        """Return the memory to the committed history if that is cheap; otherwise leave it to ``ensure_ready``."""
        length = self.committed_tokens
        if not self.context.is_stale(self.seq_id) and self.context.can_truncate(length, self.seq_id):
            self.context.truncate(length, self.seq_id)
        elif checkpoint is not None:
            self.context.restore(checkpoint)
        else:
            return
        self.clean = True

    def undo_block(self, checkpoint: Checkpoint | None) -> int:
        """Return the memory to the committed history inside a transaction, by a rebuild if need be; return its calls.

        The sequence stays unclean: the transaction has not ended.
        """
        self.go_back(checkpoint)
        calls = 0 if self.clean else self.rebuild()
        self.clean = False
        return calls

    def ensure_ready(self, report: Report) -> None:
        """Make the memory hold exactly the committed history; rebuild when it does not."""
        if self.clean:
            return
        if not self.history:
            raise StateError(
                "the sequence holds no prompt",
                state="empty",
                operation="continue",
                hint="start a request with `session.generate(prompt)`",
            )
        stale = self.context.is_stale(self.seq_id)
        if stale or self.context.length_tokens(self.seq_id) != self.committed_tokens:
            report.add_event("rebuild", committed_tokens=self.committed_tokens, stale=stale)
            report.target_calls += self.rebuild()
        self.clean = True

    def rebuild(self) -> int:
        """Evaluate the committed history again and return the calls it took; the result is checked by counting.

        The prompt goes by its own chunks, generated tokens in slices with decode kernels: the arithmetic they had.
        """
        self.context.clear(self.seq_id)
        prompt = self.history[: self.prompt_tokens]
        self._prefill(prompt, None, None)
        calls = self._evaluate_in_slices(self.history[self.prompt_tokens : -1], self.prompt_tokens)
        self.context.check_integrity(self.seq_id).raise_if_broken()
        return calls + -(-len(prompt) // self.context.ubatch_rows)

    def _evaluate_in_slices(self, tokens: Sequence[TokenId], start_pos: int) -> int:
        starts = range(0, len(tokens), self.slice_rows)
        for at in starts:
            self.evaluate(tokens[at : at + self.slice_rows], start_pos + at)
        return len(starts)

    def _prefill(
        self,
        prompt: Sequence[TokenId],
        on_rows: Callable[[CommittedRows], None] | None,
        on_progress: Callable[[int, int], None] | None,
    ) -> int:
        chunk: Sequence[TokenId] = ()
        for at in range(0, len(prompt), self.context.ubatch_rows):
            chunk = prompt[at : at + self.context.ubatch_rows]
            last = at + len(chunk) == len(prompt)
            rows = SequenceRows(seq_id=self.seq_id, start_pos=at, tokens=chunk, logits="last" if last else "none")
            self.context.evaluate((rows,), kernels="prefill")
            if on_rows is not None:
                taps = self.context.read_taps(0, len(chunk)) if self.taps else None
                on_rows(CommittedRows(seq_id=self.seq_id, start_pos=at, tokens=chunk, taps=taps))
            if on_progress is not None:
                on_progress(at + len(chunk), len(prompt))
        return len(chunk) - 1


class BlockRows:
    """Anchor and drafts of one round, evaluated slice by slice as their rows are drawn.

    Each slice begins with a token that is already known to be right (the anchor, or a draft that the slice before
    confirmed), so at most ``slice_rows - 1`` rows are ever rejected.
    """

    def __init__(self, sequence: TargetSequence, tokens: Sequence[TokenId], draw: Callable[[int], TokenId]) -> None:
        self._sequence = sequence
        self._draw = draw
        self._slice_start = 0
        self._taps: list[Taps] = []
        self.tokens = tokens
        self.evaluated_rows = 0
        self.touched = False
        self.calls = 0
        self.evaluate_ns = 0

    def sample(self, row: int) -> TokenId:
        """Draw the target's token at ``row``, evaluating the slice that holds it first."""
        if row >= self.evaluated_rows:
            self._evaluate_slice(row)
        return self._draw(row - self._slice_start)

    def _evaluate_slice(self, row: int) -> None:
        filled = self._sequence.fixed_shape and len(self.tokens) > 1
        self._evaluate_rows(row, self._sequence.slice_rows, filled=filled)

    def _evaluate_rows(self, row: int, n_rows: int, *, filled: bool = False) -> None:
        """Evaluate at most ``n_rows`` rows from ``row`` on, which follows what was evaluated of the block.

        ``filled`` adds rows that nobody draws from, so that there are ``n_rows`` unless the context ends before; they
        are dropped like rejected ones.
        """
        started_ns = time.perf_counter_ns()
        sequence = self._sequence
        if self.evaluated_rows and sequence.taps:
            self._taps.append(sequence.context.read_taps(0, row - self._slice_start))
        self.touched = True
        start_pos = sequence.committed_tokens + row
        piece = self.tokens[row : row + n_rows]
        if filled:
            room = min(n_rows, sequence.context.ctx_tokens - start_pos)
            piece = [*piece, *[piece[-1]] * (room - len(piece))]
        sequence.evaluate(piece, start_pos)
        self._slice_start = row
        self.evaluated_rows = row + len(piece)
        self.calls += 1
        self.evaluate_ns += time.perf_counter_ns() - started_ns

    def _start_over(self, checkpoint: Checkpoint | None) -> None:
        """Take the block out of the memory again; what was drawn from its rows stands."""
        self.calls += self._sequence.undo_block(checkpoint)
        self._taps = []
        self._slice_start = self.evaluated_rows = 0

    def add_to(self, report: Report, elapsed_ns: int) -> None:
        """Count the block's evaluations; what they did not take of the elapsed time went into drawing."""
        report.target_calls += self.calls
        report.timings_ns.verify += self.evaluate_ns
        report.timings_ns.sample += elapsed_ns - self.evaluate_ns

    def taps(self, n_rows: int) -> Taps | None:
        """Hidden rows of the first ``n_rows`` rows; None when the drafter asked for none.

        Called once, before anything else is evaluated: the last slice's rows are still the context's.
        """
        if not self._sequence.taps:
            return None
        last = self._sequence.context.read_taps(0, n_rows - self._slice_start)
        return _joined([*self._taps, last]) if self._taps else last


def _joined(parts: Sequence[Taps]) -> Taps:
    nextn = [part.nextn for part in parts if part.nextn is not None]
    layers = [part.layers for part in parts if part.layers is not None]
    return Taps(nextn=np.concatenate(nextn) if nextn else None, layers=np.concatenate(layers) if layers else None)
