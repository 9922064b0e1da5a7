"""LIFE: several requests on a session, closing, interleaving, other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_contract.assertions import check_equal, check_that
from power_contract.bench import Bench
from power_contract.clauses import clause
from power_contract.histories import HistoryCounts
from power_contract.opening import open_bench
from power_contract.prompts import repeating_prompt
from power_contract.sessions import open_subject_session
from power_contract.subject import ContractSubject
from power_contract.trace import Traced, outcome
from power_core.drafter import Drafter, DraftRequest
from power_core.errors import PowerError, StateError
from power_core.session import Session
from power_core.tokens import CommittedRows

TOKENS = 24
PROMPTS = tuple(repeating_prompt(seed, length) for seed, length in ((1, 24), (2, 40), (3, 9)))
PATTERNS = tuple((pattern * 8)[:length] for pattern, length in (((7, 8, 9, 11), 24), ((7, 8, 5), 20), ((9, 7, 8), 9)))
"""Prompts with the same pieces, which go on in different ways."""

Outcome: TypeAlias = dict[str, object]
Alone: TypeAlias = Callable[[str, tuple[int, ...]], Outcome]


@pytest.fixture(scope="module")
def alone(subject: ContractSubject) -> Alone:
    """Return what a prompt gives on a session of its own."""
    known: dict[tuple[str, tuple[int, ...]], Outcome] = {}

    def run_alone(target_kind: str, prompt: tuple[int, ...]) -> Outcome:
        if (target_kind, prompt) not in known:
            with open_subject_session(subject, target_kind) as session:
                known[target_kind, prompt] = outcome(session.generate(prompt, max_tokens=TOKENS).result())
        return known[target_kind, prompt]

    return run_alone


@clause("LIFE-01")
def test_requests_on_one_session_do_not_know_of_each_other(
    subject: ContractSubject, target_kind: str, alone: Alone
) -> None:
    with open_subject_session(subject, target_kind) as session:
        found = [outcome(session.generate(prompt, max_tokens=TOKENS).result()) for prompt in PROMPTS]
    for number, (prompt, one) in enumerate(zip(PROMPTS, found, strict=True), 1):
        check_equal(f"request {number} of {len(PROMPTS)} on one session", one, alone(target_kind, prompt))


@clause("LIFE-02")
@pytest.mark.parametrize("begun", [True, False])
def test_closing_twice_is_safe(subject: ContractSubject, target_kind: str, begun: bool) -> None:
    with open_bench(subject, target_kind) as bench:
        if begun:
            bench.start(PROMPTS[0])
        bench.own.close()
        bench.own.close()


@clause("LIFE-03")
def test_after_close_every_call_is_refused(subject: ContractSubject, target_kind: str) -> None:
    with open_bench(subject, target_kind) as bench:
        bench.start(PROMPTS[0])
        mark = bench.own.checkpoint()
        calls = drafter_calls(bench, 0)
        bench.own.close()
        calls["begin"] = lambda: bench.own.begin(PROMPTS[0])
        calls["restore"] = lambda: bench.own.restore(mark)
        for name, call in calls.items():
            require_refusal(f"{name}() after close()", call)


@clause("LIFE-04")
def test_before_begin_every_call_is_refused(subject: ContractSubject, target_kind: str) -> None:
    with open_bench(subject, target_kind, sequences=2) as bench:
        bench.start(PROMPTS[0])
        mark = bench.own.checkpoint()
        calls = drafter_calls(bench, 1)
        calls["restore"] = lambda: bench.own.restore(mark, seq_id=1)
        for name, call in calls.items():
            require_refusal(f"{name}() before begin()", call)
        bench.check_drafter()


def drafter_calls(bench: Bench, seq_id: int) -> dict[str, Callable[[], object]]:
    """Return calls that are right for a sequence that has begun."""
    line, own = bench.line(), bench.own
    taps = bench.target.read_taps(0, 1) if bench.settings.context.taps else None
    rows = CommittedRows(seq_id=seq_id, start_pos=line.sequence.committed_tokens, tokens=[3], taps=taps)
    request = DraftRequest(seq_id=seq_id, n_past=line.sequence.committed_tokens, anchor=3, limit_tokens=2)
    return {
        "process": lambda: own.process(rows),
        "propose": lambda: own.propose(request),
        "checkpoint": lambda: own.checkpoint(seq_id=seq_id),
    }


def require_refusal(what: str, call: Callable[[], object]) -> None:
    """Require a ``StateError``."""
    try:
        call()
    except StateError:
        return
    except Exception as error:  # noqa: BLE001 - whatever else escapes is what the clause forbids
        check_that(False, what, expected="StateError", actual=repr(error))
    check_that(False, what, expected="StateError", actual="it was carried out")


@clause("LIFE-05")
def test_two_sessions_in_turn_do_not_know_of_each_other(
    subject: ContractSubject, target_kind: str, alone: Alone
) -> None:
    with open_subject_session(subject, target_kind) as left, open_subject_session(subject, target_kind) as right:

        @given(turns=st.lists(st.booleans(), min_size=4, max_size=40))
        def take_turns(turns: list[bool]) -> None:
            requests = (left.generate(PROMPTS[0], max_tokens=TOKENS), right.generate(PROMPTS[1], max_tokens=TOKENS))
            for turn in turns:
                next(requests[turn], None)
            found = [outcome(request.result()) for request in requests]
            expected = [alone(target_kind, prompt) for prompt in PROMPTS[:2]]
            check_equal(f"two sessions that took turns {[int(turn) for turn in turns]}", found, expected)

        take_turns()


@clause("LIFE-06")
def test_another_thread_is_refused(subject: ContractSubject, target_kind: str, alone: Alone) -> None:
    answers: list[str] = []
    sessions: list[Session] = []

    def intrude() -> None:
        session = sessions[0]
        for call in (lambda: session.generate(PROMPTS[1]), session.resume, session.close):
            answers.append(answer_of(call))

    def from_another_thread() -> None:
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()

    with open_subject_session(subject, target_kind, on_drafter=Traced(from_another_thread)) as session:
        sessions.append(session)
        found = outcome(session.generate(PROMPTS[0], max_tokens=TOKENS).result())
    check_that(bool(answers), "the drafter was never asked", expected="a proposal", actual="none")
    check_equal("what another thread was told", set(answers), {"StateError"})
    check_equal("the request that ran meanwhile", found, alone(target_kind, PROMPTS[0]))


def answer_of(call: Callable[[], object]) -> str:
    """Return the name of what a call raised, or that it went through."""
    try:
        call()
    except PowerError as error:
        return type(error).__name__
    return "carried out"


@clause("LIFE-07")
def test_a_cancelled_request_leaves_nothing_behind(subject: ContractSubject, target_kind: str, alone: Alone) -> None:
    traced = Traced()
    with open_subject_session(subject, target_kind, on_drafter=traced) as session:

        @given(pieces=st.integers(0, TOKENS - 1), inside=st.booleans())
        def cancel_and_go_on(pieces: int, inside: bool) -> None:
            request = session.generate(PROMPTS[0], max_tokens=TOKENS)
            for _ in range(pieces):
                next(request)
            if inside:
                traced.drafter.on_propose = request.cancel
            else:
                request.cancel()
            request.result()
            traced.drafter.on_propose = lambda: None
            found = outcome(session.generate(PROMPTS[1], max_tokens=TOKENS).result())
            where = "while the drafter proposed" if inside else "between two pieces"
            what = f"the request after one that was cancelled after {pieces} pieces, {where},"
            check_equal(what, found, alone(target_kind, PROMPTS[1]))

        cancel_and_go_on()


class ClosingWatch:
    """A drafter's stand-in that looks, when it is closed, whether the target can still be used (``Drafter``)."""

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner
        self.session: Session | None = None
        self.found: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def close(self) -> None:
        """Close, and keep what the target answered before."""
        assert self.session is not None
        self.found.append(answer_of(self.session.context.length_tokens))
        self._inner.close()


@clause("LIFE-08")
def test_the_session_closes_the_drafter_once_and_before_the_target(subject: ContractSubject, target_kind: str) -> None:
    watches: list[ClosingWatch] = []

    def watch(inner: Drafter) -> Drafter:
        watches.append(ClosingWatch(inner))
        return watches[-1]  # type: ignore[return-value]

    with open_subject_session(subject, target_kind, on_drafter=watch) as session:
        watches[0].session = session
        session.generate(PROMPTS[0], max_tokens=4).result()
        session.close()
        session.close()
    check_equal("what the target answered whenever the drafter was closed", watches[0].found, ["carried out"])


@clause("LIFE-09")
def test_begin_starts_a_sequence_anew(subject: ContractSubject, target_kind: str, histories: HistoryCounts) -> None:
    prompts = st.sampled_from(PATTERNS)
    with open_bench(subject, target_kind, willing=True, counts=histories) as bench:

        @given(first=prompts, second=prompts, rounds=st.lists(st.integers(0, 3), max_size=3))
        def begin_again(first: tuple[int, ...], second: tuple[int, ...], rounds: list[int]) -> None:
            bench.told.clear()
            bench.start(first)
            for accepted in rounds:
                bench.round(accepted)
            bench.own_proposal()
            bench.start(second)
            bench.check_drafter(also=first)
            for accepted in (1, 2):
                bench.round(accepted)
                bench.check_drafter(also=first)

        begin_again()
