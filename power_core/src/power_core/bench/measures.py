"""One request, measured: times, counters, memory, digest of the output."""

from __future__ import annotations

import gc
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import attrs
import numpy as np

from power_core.bench.memory import peak_bytes, reset_peak
from power_core.bench.records import Sample
from power_core.errors import Cancelled
from power_core.generation import Generation
from power_core.report import GenerationResult
from power_core.session import Session
from power_core.settings import RequestSettings
from power_core.tokens import TokenId

Guard: TypeAlias = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Surrounds every run and gets what cancels it, for instance to call that when a signal comes."""


def no_guard(cancel: Callable[[], None]) -> AbstractContextManager[None]:
    """Surround the run with nothing."""
    return nullcontext()


@attrs.frozen(kw_only=True)
class TokenTimes:
    """When the first and the last token were handed out and the result was there, in nanoseconds from the call.

    ``compute_ns`` is the time inside the backend's compute between the two tokens.
    """

    first_token_ns: int
    last_token_ns: int
    total_ns: int
    compute_ns: int


def tokens_digest(tokens: Sequence[TokenId]) -> str:
    """Return the SHA-256 of token ids as little-endian int32."""
    return hashlib.sha256(np.asarray(tokens, dtype="<i4").tobytes()).hexdigest()


def time_request(
    session: Session,
    prompt: Sequence[TokenId],
    request: RequestSettings,
    guard: Guard = no_guard,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> tuple[GenerationResult, TokenTimes]:
    """Run a request to its end and return the result and its times.

    Raises:
        Cancelled: the guard cancelled it, however late.
    """
    tokens = first_ns = last_ns = first_compute_ns = last_compute_ns = 0
    running: list[Generation] = []
    cancelled = threading.Event()

    def cancel() -> None:
        cancelled.set()
        for generation in running:
            generation.cancel()

    with guard(cancel):
        started_ns = clock()
        generation = session.generate(prompt, request)
        running.append(generation)
        if cancelled.is_set():
            generation.cancel()
        for piece in generation:
            if piece.token is None:
                continue
            tokens += 1
            if tokens == 1:
                first_ns, first_compute_ns = clock(), session.compute_ns
            if tokens == request.max_tokens:
                last_ns, last_compute_ns = clock(), session.compute_ns
        result = generation.result()
        ended_ns = clock()
    if cancelled.is_set():
        raise Cancelled(committed_tokens=len(result.tokens))
    times = TokenTimes(
        first_token_ns=first_ns - started_ns,
        last_token_ns=last_ns - started_ns,
        total_ns=ended_ns - started_ns,
        compute_ns=last_compute_ns - first_compute_ns,
    )
    return result, times


def measure(
    session: Session, prompt: Sequence[TokenId], request: RequestSettings, guard: Guard = no_guard
) -> tuple[GenerationResult, TokenTimes, int | None]:
    """Measure a request; the third value is the process's peak memory. No garbage is collected meanwhile."""
    reset_peak()
    gc.disable()
    try:
        result, times = time_request(session, prompt, request, guard)
    finally:
        gc.enable()
    return result, times, peak_bytes()


def decode_rate(tokens: int, first_token_ns: int, last_token_ns: int) -> float:
    """Tokens per second between the first token and the last."""
    return (tokens - 1) * 1e9 / (last_token_ns - first_token_ns)


def end_to_end_rate(tokens: int, total_ns: int) -> float:
    """Tokens per second from the call to the result."""
    return tokens * 1e9 / total_ns


def make_sample(
    result: GenerationResult,
    times: TokenTimes,
    peak: int | None,
    *,
    variant: str,
    prompt: str,
    repeat: int,
    place: int,
) -> Sample:
    """Return the sample of a run that is known to be valid."""
    report, tokens = result.report, len(result.tokens)
    phases = attrs.asdict(report.timings_ns)
    return Sample(
        variant=variant,
        prompt=prompt,
        repeat=repeat,
        place=place,
        tokens=tokens,
        first_token_ns=times.first_token_ns,
        last_token_ns=times.last_token_ns,
        total_ns=times.total_ns,
        decode_tokens_per_second=decode_rate(tokens, times.first_token_ns, times.last_token_ns),
        end_to_end_tokens_per_second=end_to_end_rate(tokens, times.total_ns),
        rounds=report.rounds,
        target_calls=report.target_calls,
        drafted_tokens=report.drafted_tokens,
        accepted_tokens=report.accepted_tokens,
        verified_tokens=report.verified_tokens,
        replays=report.replays,
        copied_bytes=report.copied_bytes,
        compute_ns=times.compute_ns,
        peak_bytes=peak,
        phases_ns={name: phases[name] for name in phases if name not in ("load", "total")},
        drafted_histogram=dict(report.drafted_histogram),
        accepted_histogram=dict(report.accepted_prefix_histogram),
        output_sha256=tokens_digest(result.tokens),
    )
