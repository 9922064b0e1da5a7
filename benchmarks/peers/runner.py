"""Runs a contest: everybody opened, warmed up on another prompt, then prompt by prompt in alternating order.

Whoever keeps something between requests (n-grams of earlier answers, measured costs) must not meet a prompt again, so
every pass over the prompts opens everybody anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import attrs
import numpy as np

from peers.engines import Answer, Engine
from peers.records import ContestRecord, Sample, SubjectRecord
from power_core.bench.measures import tokens_digest
from power_core.bench.plan import running_order
from power_core.tokens import TokenId

Clock = Callable[[], float]


@attrs.frozen(kw_only=True)
class Subject:
    """One of a contest; ``open`` makes a new engine, and the rest is as in ``SubjectRecord``."""

    name: str
    side: str
    division: str = ""
    strategy: str
    draft_max: int | None = None
    goal: float | None = None
    open: Callable[[], Engine]


@attrs.frozen(kw_only=True)
class TokenPrompt:
    """A named prompt, the same ids for everybody."""

    name: str
    tokens: tuple[TokenId, ...]


@attrs.frozen(kw_only=True)
class Contest:
    """Who meets whom, on what; see ``ContestRecord``.

    Attributes:
        warmup: A prompt that is not among the measured ones.
        weight: Its share of a run's time, relative to others.
        subjects: The first one's outputs are the reference.
    """

    name: str
    model: str
    model_sha256: str
    prompts: tuple[TokenPrompt, ...]
    warmup: TokenPrompt
    max_tokens: int
    weight: float = 1.0
    subjects: tuple[Subject, ...]


def run_contest(contest: Contest, seconds: float, clock: Clock = time.monotonic) -> ContestRecord:
    """Run passes until the time is over: at least one prompt, and after the first pass whole passes only.

    Raises:
        PowerError: an engine cannot be opened or does not answer; what was opened has been closed.
    """
    until_s = clock() + seconds
    samples: list[Sample] = []
    facts: dict[str, dict[str, str]] = {}
    longest_s = 0.0
    repeat = 0
    while repeat == 0 or clock() + longest_s <= until_s:
        started_s = clock()
        samples += _run_pass(contest, repeat, facts, lambda: clock() > until_s)
        longest_s = max(longest_s, clock() - started_s)
        repeat += 1
    return ContestRecord(
        name=contest.name,
        model=contest.model,
        model_sha256=contest.model_sha256,
        prompts_sha256=tokens_digest([token for prompt in contest.prompts for token in prompt.tokens]),
        prompts=len(contest.prompts),
        max_tokens=contest.max_tokens,
        subjects=tuple(
            SubjectRecord(
                name=subject.name,
                side=subject.side,
                division=subject.division,
                strategy=subject.strategy,
                draft_max=subject.draft_max,
                goal=subject.goal,
                facts=facts[subject.name],
            )
            for subject in contest.subjects
        ),
        samples=tuple(samples),
    )


def _run_pass(
    contest: Contest, repeat: int, facts: dict[str, dict[str, str]], late: Callable[[], bool]
) -> list[Sample]:
    """Open, warm up, run every prompt once, close; the first pass may end early, between two prompts."""
    samples: list[Sample] = []
    with ExitStack() as stack:
        engines: dict[str, Engine] = {}
        for subject in contest.subjects:
            engine = subject.open()
            stack.callback(engine.close)
            facts[subject.name] = engine.start()
            engines[subject.name] = engine
        for engine in engines.values():
            engine.generate(contest.warmup.tokens, contest.max_tokens)
        for number, prompt in enumerate(contest.prompts):
            if repeat == 0 and number and late():
                break
            order = running_order(list(engines), repeat + number)
            answers = {name: engines[name].generate(prompt.tokens, contest.max_tokens) for name in order}
            samples += _samples(order, answers, answers[contest.subjects[0].name], prompt.name, repeat)
    return samples


def _samples(
    order: Sequence[str], answers: Mapping[str, Answer], reference: Answer, prompt: str, repeat: int
) -> list[Sample]:
    return [
        Sample(
            subject=name,
            prompt=prompt,
            repeat=repeat,
            place=place,
            tokens=len(answer.tokens),
            decode_ns=answer.decode_ns,
            total_ns=answer.total_ns,
            drafted_tokens=answer.drafted_tokens,
            accepted_tokens=answer.accepted_tokens,
            output_sha256=tokens_digest(answer.tokens),
            first_difference=first_difference(answer.tokens, reference.tokens),
        )
        for place, name in enumerate(order)
        for answer in (answers[name],)
    ]


def first_difference(tokens: Sequence[TokenId], reference: Sequence[TokenId]) -> int | None:
    """Return the first index at which two outputs differ, the shorter one's length where one continues the other."""
    if len(tokens) == len(reference):
        places = np.flatnonzero(np.asarray(tokens) != np.asarray(reference))
        return int(places[0]) if places.size else None
    common = min(len(tokens), len(reference))
    earlier = first_difference(tokens[:common], reference[:common])
    return common if earlier is None else earlier
