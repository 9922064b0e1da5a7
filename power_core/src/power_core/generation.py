"""One request: the decode loop behind an iterator of token pieces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from power_core.drafter import Drafter, DraftRequest, call_drafter
from power_core.errors import Cancelled, StateError
from power_core.logprobs import TokenLogprobs
from power_core.report import FinishReason, GenerationResult, Report
from power_core.scheduling import DraftScheduler, FixedScheduler, GuardedScheduler, RoundOutcome
from power_core.settings import RequestSettings
from power_core.target import TargetModel
from power_core.text import StopPreview, TextStream
from power_core.tokens import CommittedRows, TokenId
from power_core.transaction import Round, VerifyTransaction


class TokenPiece(NamedTuple):
    """An emitted token and the text that became certain with it; ``token`` is None for text released at the end.

    ``logprobs`` is None unless the request asked for them.
    """

    token: TokenId | None
    text: str
    logprobs: TokenLogprobs | None = None


class Generation(Iterator[TokenPiece]):
    """Iterating decodes; each piece is handed out once, in order.

    It ends at the first position where one of these holds, in this order where several do: the next token is an end
    token, the model's or one of ``stop_tokens`` (``stop_token``, or ``grammar_end`` for the model's own under a
    grammar); the token just handed out completes a stop string; ``cancel`` was called, and the tokens of finished
    rounds are handed out; ``max_tokens`` were handed out; the context is full.

    ``cancel`` may be called from any thread: the running evaluation stops, the round is rolled back, and the result so
    far is final. After an error the session continues from the last committed token with ``session.resume``.
    """

    def __init__(
        self,
        *,
        model: TargetModel,
        parts: Round,
        scheduler: DraftScheduler,
        request: RequestSettings,
        report: Report,
        draft_min: int,
        draft_p_min: float,
        prompt: Sequence[TokenId] | None,
        on_prefill: Callable[[int, int], None] | None = None,
        gate: threading.RLock,
        grammar: bool = False,
        records: Sequence[TokenLogprobs] | None = None,
    ) -> None:
        self._vocabulary = model.vocabulary
        self._parts = parts
        self._sequence = parts.sequence
        self._ctx_tokens = parts.sequence.context.ctx_tokens
        self._scheduler = scheduler
        self._request = request
        self._max_tokens = request.max_tokens
        self._stop_tokens = request.stop_tokens
        self._draft_min = draft_min
        self._draft_p_min = draft_p_min
        self._prompt = prompt
        self._on_prefill = on_prefill
        self._stream = TextStream(model.vocabulary, request.stop)
        self._tokens: list[TokenId] = []
        self._finish_reason: FinishReason | None = None
        self._flushed = False
        self._cancelled = False
        self._closed = False
        self._started_ns = 0
        self._gate = gate
        self._grammar = grammar
        self._records = records
        self._logprobs: list[TokenLogprobs] = []
        self.report = report
        self._whole_rounds = self._prepare_rounds()
        self._tells_scheduler = not isinstance(scheduler, FixedScheduler)

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> TokenPiece:
        gate = self._gate
        if not gate.acquire(False):
            raise _busy("next")
        try:
            return self._next_piece()
        finally:
            gate.release()

    def _next_piece(self) -> TokenPiece:
        if self._closed and self._finish_reason is None:
            raise StateError(
                "this generation was replaced by a newer request or its session was closed",
                state="closed",
                operation="next",
            )
        sequence = self._sequence
        while self._finish_reason is None:
            handed_out = self._prompt is not None or sequence.handed_out == len(sequence.history)
            if handed_out or len(self._tokens) >= self._max_tokens:
                self._advance()
                continue
            piece = self._deliver()
            if piece is not None:
                return piece
        return self._flush()

    def result(self) -> GenerationResult:
        """Run to the end if that has not happened, and return everything."""
        return self.run(lambda piece: None)

    def run(self, on_piece: Callable[[TokenPiece], None]) -> GenerationResult:
        """Run to the end, handing every further piece to ``on_piece``, and return everything."""
        for piece in self:
            on_piece(piece)
        assert self._finish_reason is not None
        return GenerationResult(
            tokens=tuple(self._tokens),
            text=self._stream.text,
            finish_reason=self._finish_reason,
            report=self.report,
            logprobs=None if self._records is None else tuple(self._logprobs),
        )

    def cancel(self) -> None:
        """Stop as soon as possible; what was handed out stays valid. Does nothing once finished or replaced.

        The target's running evaluation stops; a drafter's runs to its end first.
        """
        if self._finish_reason is None and not self._closed:
            self._cancelled = True
            self._sequence.context.abort()

    def close(self) -> None:
        """Give the session back to the next request; iterating afterwards raises ``StateError``."""
        self._closed = True

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None while it runs."""
        return self._finish_reason

    def _advance(self) -> None:
        """Produce at least one undelivered token, or set the finish reason."""
        self._started_ns = self._started_ns or time.perf_counter_ns()
        try:
            if self._cancelled:
                self._finish("cancelled")
            elif len(self._tokens) >= self._max_tokens:
                self._finish("length")
            elif self._prompt is not None:
                self._first_token(self._prompt)
            else:
                self._run_round()
        except Cancelled:
            self._finish("cancelled")

    def _first_token(self, prompt: Sequence[TokenId]) -> None:
        parts = self._parts
        drafter = parts.drafter
        on_rows = None
        if drafter is not None:
            call_drafter("begin", lambda: drafter.begin(prompt, seq_id=parts.sequence.seq_id))
            on_rows = _guarded_process(drafter)
        parts.sampler.begin(prompt)
        row = parts.sequence.start(prompt, on_rows=on_rows, on_progress=self._on_prefill)
        first = parts.sampler.sample(row)
        parts.sequence.begin(prompt, first)
        self._prompt = None
        self.report.timings_ns.prefill = time.perf_counter_ns() - self._started_ns

    def _run_round(self) -> None:
        sequence = self._sequence
        remaining_tokens = self._max_tokens - len(self._tokens)
        remaining_context = self._ctx_tokens - len(sequence.history)
        if remaining_context < 0:
            self._finish("context_full")
            return
        report = self.report
        draft_ns, calls = report.timings_ns.draft, report.target_calls
        limit = self._draft_limit(remaining_tokens, remaining_context)
        with VerifyTransaction(self._parts, report) as transaction:
            if limit and self._whole_rounds and self._parts.runs_whole:
                emitted = transaction.run_whole(limit)
            else:
                emitted = self._run_steps(transaction, limit)
        report.verified_tokens += len(emitted) - self._is_end(emitted[-1])
        if self._tells_scheduler:
            draft_ns = report.timings_ns.draft - draft_ns
            self._observe(
                RoundOutcome(
                    asked_tokens=limit,
                    drafted_tokens=transaction.drafted_tokens,
                    accepted_tokens=transaction.accepted_tokens,
                    draft_ns=draft_ns,
                    verify_ns=time.perf_counter_ns() - transaction.started_ns - draft_ns,
                    target_calls=report.target_calls - calls,
                    slice_rows=sequence.slice_rows,
                )
            )

    def _run_steps(self, transaction: VerifyTransaction, limit: int) -> Sequence[TokenId]:
        """Run a round step by step."""
        transaction.propose(self._draft_request(limit) if limit else None)
        preview = self._stream.preview()
        block = transaction.verify(lambda token: self._is_terminal(token, preview))
        transaction.commit()
        return block.emitted

    def _draft_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Return how many drafts to ask for, 0 for a round without."""
        limit = self._scheduler.next_limit(remaining_tokens, remaining_context)
        self.report.count_limit(limit)
        return 0 if self._parts.drafter is None or limit < self._draft_min else limit

    def _draft_request(self, limit: int) -> DraftRequest:
        sequence = self._parts.sequence
        return DraftRequest(
            seq_id=sequence.seq_id,
            n_past=sequence.committed_tokens,
            anchor=sequence.history[-1],
            limit_tokens=limit,
            min_tokens=self._draft_min,
            p_min=self._draft_p_min,
        )

    def _prepare_rounds(self) -> bool:
        """Set what stays the same in whole rounds; False where there are none, or text decides where one ends."""
        parts = self._parts
        if parts.rounds is None or self._request.stop:
            return False
        parts.rounds.prepare(
            sampler=parts.sampler,
            seq_id=parts.sequence.seq_id,
            min_tokens=self._draft_min,
            p_min=self._draft_p_min,
            filled=parts.sequence.fixed_shape,
            stop_tokens=self._request.stop_tokens,
        )
        return True

    def _is_terminal(self, token: TokenId, preview: StopPreview | None) -> bool:
        return self._is_end(token) or (preview is not None and preview.completes(token))

    def _is_end(self, token: TokenId) -> bool:
        return self._vocabulary.is_end(token) or token in self._stop_tokens

    def _observe(self, outcome: RoundOutcome) -> None:
        scheduler = self._scheduler
        was_activated = isinstance(scheduler, GuardedScheduler) and scheduler.activated
        scheduler.observe(outcome)
        if isinstance(scheduler, GuardedScheduler) and scheduler.activated and not was_activated:
            self.report.add_event("rollback_guard", draft_limit=scheduler.draft_limit)

    def _deliver(self) -> TokenPiece | None:
        """Hand out the next token of the history; counting it is the last step, so an interruption loses nothing."""
        sequence = self._sequence
        token = sequence.history[sequence.handed_out]
        if self._is_end(token):
            self._finish("grammar_end" if self._grammar and self._vocabulary.is_end(token) else "stop_token")
            return None
        logprobs = None
        if self._records is not None:
            logprobs = self._records[sequence.handed_out - sequence.prompt_tokens]
            self._logprobs.append(logprobs)
        self._tokens.append(token)
        self.report.emitted_tokens += 1
        text = self._stream.push(token)
        if self._stream.stopped:
            self._finish("stop_string")
        piece = TokenPiece(token, text, logprobs)
        sequence.handed_out += 1
        return piece

    def _finish(self, reason: FinishReason) -> None:
        self._finish_reason = reason
        if reason == "cancelled":
            self._parts.sequence.context.clear_abort()
        self.report.timings_ns.total = time.perf_counter_ns() - self._started_ns

    def _flush(self) -> TokenPiece:
        if self._flushed:
            raise StopIteration
        self._flushed = True
        rest = self._stream.finish()
        if not rest:
            raise StopIteration
        return TokenPiece(token=None, text=rest)


def _guarded_process(drafter: Drafter) -> Callable[[CommittedRows], None]:
    return lambda rows: call_drafter("process", lambda: drafter.process(rows))


@contextmanager
def only_one_thread(gate: threading.RLock, operation: str) -> Iterator[None]:
    """Keep other threads out of a session while one is inside; they are refused at once, nothing queues."""
    if not gate.acquire(blocking=False):
        raise _busy(operation)
    try:
        yield
    finally:
        gate.release()


def _busy(operation: str) -> StateError:
    return StateError(
        "another thread is using the session",
        state="busy",
        operation=operation,
        hint="use a session from one thread at a time; `cancel` is the one call that others may make",
        code="state.busy",
    )
