"""Faults, interrupts and cancellations in the decode loop: the committed state survives all of them."""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path

import pytest
from core_sessions import (
    N_VOCAB,
    PROMPT,
    SHAPES,
    collect,
    drafts_with_acceptance,
    fake_context,
    open_fake_session,
    random_acceptance,
    window,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import (
    NativeCallError,
    PluginContractError,
    PowerError,
    TransactionAborted,
)
from power_core.testing.fakes import ScriptedDrafter, plain_decode


class Boom(BaseException):
    """A fault of any kind."""


FAULTS = ["before evaluate", "abort inside", "propose", "process", "accept", "sample"]


def inject(session, drafter, fault, countdown, error):
    """Raise ``error`` at the ``countdown``-th call of one part."""
    context = fake_context(session)
    count = itertools.count(1)

    def wrap(call):
        def wrapped(*args, **kwargs):
            if next(count) == countdown:
                raise error
            return call(*args, **kwargs)

        return wrapped

    if fault == "before evaluate":
        context.before_evaluate = wrap(lambda context: None)
    elif fault == "abort inside":

        def arm(context):
            if next(count) == countdown:
                context.abort_after_rows = 0

        context.before_evaluate = arm
    else:
        owner = session._sampler if fault == "sample" else drafter
        setattr(owner, fault, wrap(getattr(owner, fault)))


def heal(session, drafter):
    """Take every injected fault out."""
    context = fake_context(session)
    context.before_evaluate = context.abort_after_rows = None
    for name in ("propose", "process", "accept"):
        drafter.__dict__.pop(name, None)
    session._sampler.__dict__.pop("sample", None)


@settings(max_examples=300)
@given(
    SHAPES,
    st.integers(0, 2**16),
    st.sampled_from(FAULTS),
    st.integers(1, 12),
    st.sampled_from([NativeCallError("injected"), ValueError("injected"), Boom(), KeyboardInterrupt()]),
)
def test_after_any_fault_the_same_sequence_continues_and_a_new_request_runs(shape, seed, fault, countdown, error):
    drafter = ScriptedDrafter(random_acceptance(seed))
    session = open_fake_session(drafter, **window(shape))
    truth = plain_decode(PROMPT, 40, N_VOCAB)
    first = session.generate(PROMPT, max_tokens=4)
    got = [piece.token for piece in first if piece.token is not None]
    inject(session, drafter, fault, countdown, error)
    broken = session.resume(max_tokens=36)
    with contextlib.suppress(PowerError, ValueError, Boom, KeyboardInterrupt):
        collect(broken, got)
    heal(session, drafter)
    rest = session.resume(max_tokens=40 - len(got))
    got += [piece.token for piece in rest if piece.token is not None]
    assert got == truth
    assert fake_context(session).tokens() == list(session.committed_tokens) == drafter.seen
    new = session.generate(PROMPT[::-1], max_tokens=20).result()
    assert list(new.tokens) == plain_decode(PROMPT[::-1], 20, N_VOCAB)


@pytest.mark.parametrize("after", range(0, 20, 3))
@pytest.mark.parametrize("recurrent", [False, True])
def test_cancel_keeps_what_was_handed_out_and_resume_goes_on(after, recurrent):
    session = open_fake_session(ScriptedDrafter(random_acceptance(1)), recurrent=recurrent)
    generation = session.generate(PROMPT, max_tokens=40)
    got = [piece.token for piece in itertools.islice(generation, after)]
    generation.cancel()
    got = list(generation.result().tokens)
    assert generation.finish_reason == "cancelled"
    assert got == plain_decode(PROMPT, 40, N_VOCAB)[: len(got)]
    if after:
        got += session.resume(max_tokens=40 - len(got)).result().tokens
        assert got == plain_decode(PROMPT, 40, N_VOCAB)
    assert list(session.generate(PROMPT, max_tokens=10).result().tokens) == plain_decode(PROMPT, 10, N_VOCAB)


HAND_OVER = ("__next__", "_next_piece", "_deliver", "run", "collect")  # from here a token is the caller's


def interrupt_at(line_number):
    """Trace the loop and raise KeyboardInterrupt at its n-th line; hand-over lines are the caller's and not counted."""
    seen = itertools.count(1)

    def trace_lines(frame, event, argument):
        if event == "line" and next(seen) == line_number:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace_lines

    def trace_calls(frame, event, argument):
        name = Path(frame.f_code.co_filename).name
        inside = name in ("generation.py", "transaction.py", "sequence.py", "verify.py")
        return trace_lines if inside and frame.f_code.co_name not in HAND_OVER else None

    sys.settrace(trace_calls)


@pytest.mark.parametrize("recurrent", [False, True])
def test_an_interrupt_at_any_line_loses_no_token(recurrent):
    truth = plain_decode(PROMPT, 16, N_VOCAB)
    for line_number in itertools.count(1):
        drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: limit // 2))
        session = open_fake_session(drafter, recurrent=recurrent, slice_rows=2, snapshots=1)
        got = []
        interrupted = False
        interrupt_at(line_number)
        try:
            collect(session.generate(PROMPT, max_tokens=16), got)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(None)
        if not interrupted:
            break
        if session.committed_tokens:
            collect(session.resume(max_tokens=16 - len(got)), got)
            assert got == truth, line_number
            assert fake_context(session).tokens() == list(session.committed_tokens) == drafter.seen
    assert line_number > 300


@pytest.mark.parametrize("operation", ["begin", "process", "propose", "accept", "checkpoint"])
def test_whatever_a_drafter_raises_is_reported_as_the_drafters(operation):
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: 1))

    def explode(*args, **kwargs):
        raise ValueError("broken drafter")

    setattr(drafter, operation, explode)
    with pytest.raises(TransactionAborted, match=f"`{operation}`: ValueError"):
        open_fake_session(drafter).generate(PROMPT, max_tokens=9).result()


@pytest.mark.parametrize("answer", [None, [1, 2], "ab"])
def test_an_answer_that_is_no_proposal_is_the_plugins_fault(answer):
    drafter = ScriptedDrafter(lambda history, limit: [])
    drafter.propose = lambda request: answer
    with pytest.raises(PluginContractError, match="expected a Proposal"):
        open_fake_session(drafter).generate(PROMPT, max_tokens=9).result()
