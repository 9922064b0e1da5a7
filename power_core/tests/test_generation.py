"""The decode loop on fakes: parity with plain decoding for every drafter, limit, stop, cancellation and fault."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from core_sessions import N_VOCAB, drafts_with_acceptance, fake_context, open_fake_session, random_acceptance
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import (
    NativeCallError,
    PluginContractError,
    PowerError,
    PromptError,
    StateError,
    TransactionAborted,
)
from power_core.testing.fakes import ScriptedDrafter, plain_decode

PROMPT = [5, 6, 7] * 7
SHAPES = st.fixed_dictionaries(
    {
        "recurrent": st.booleans(),
        "draft_max": st.integers(1, 9),
        "batch_rows": st.integers(11, 32),
    }
).flatmap(
    lambda shape: st.fixed_dictionaries(
        {
            **{name: st.just(value) for name, value in shape.items()},
            "slice_rows": st.integers(1, shape["draft_max"] + 1),
        }
    )
)


def window(shape):
    return {**shape, "snapshots": shape["slice_rows"] - 1}


@given(SHAPES, st.integers(0, 2**16))
def test_every_drafter_gives_plain_decoding(shape, seed):
    drafter = ScriptedDrafter(random_acceptance(seed))
    session = open_fake_session(drafter, **window(shape))
    result = session.generate(PROMPT, max_tokens=60).result()
    assert list(result.tokens) == plain_decode(PROMPT, 60, N_VOCAB)
    assert fake_context(session).tokens() == list(session.committed_tokens) == drafter.seen
    assert result.report.replays == 0
    assert result.report.copied_bytes == 0


@given(SHAPES, st.integers(0, 2**16), st.integers(0, 40))
def test_the_budget_is_never_overshot(shape, seed, max_tokens):
    session = open_fake_session(ScriptedDrafter(random_acceptance(seed)), **window(shape))
    result = session.generate(PROMPT, max_tokens=max_tokens).result()
    assert list(result.tokens) == plain_decode(PROMPT, max_tokens, N_VOCAB)
    assert result.finish_reason == "length"
    assert result.report.emitted_tokens == max_tokens


@given(SHAPES, st.integers(0, 2**16))
def test_the_report_obeys_its_identities(shape, seed):
    session = open_fake_session(ScriptedDrafter(random_acceptance(seed)), **window(shape))
    report = session.generate(PROMPT, max_tokens=50).result().report
    assert report.emitted_tokens == 1 + report.verified_tokens
    assert report.verified_tokens == report.accepted_tokens + report.rounds
    assert report.target_calls == len(fake_context(session).evaluations) - -(-len(PROMPT) // shape["batch_rows"])
    assert report.accepted_tokens <= report.drafted_tokens
    assert report.target_calls >= report.rounds == report.target_passes
    assert report.tokens_per_target_pass <= shape["draft_max"] + 1


@given(st.integers(0, 2**16), st.integers(1, 5))
def test_taps_reach_the_drafter_once_in_order_for_committed_rows_only(seed, slice_rows):
    drafter = ScriptedDrafter(random_acceptance(seed))
    session = open_fake_session(drafter, taps=True, slice_rows=slice_rows, snapshots=slice_rows - 1, recurrent=True)
    session.generate(PROMPT, max_tokens=40).result()
    rows = [row for taps in drafter.taps for row in taps.nextn.tolist()]
    assert [int(row[1]) for row in rows] == list(range(len(session.committed_tokens)))
    assert [int(row[2]) for row in rows] == list(session.committed_tokens)


def test_slices_after_a_mismatch_are_never_evaluated():
    session = open_fake_session(
        ScriptedDrafter(drafts_with_acceptance(lambda limit: 0)), draft_max=8, slice_rows=3, snapshots=2, recurrent=True
    )
    report = session.generate(PROMPT, max_tokens=12).result().report
    assert report.drafted_tokens > report.rounds
    assert report.target_calls == report.rounds
    assert max(len(rows.tokens) for call in fake_context(session).evaluations[2:] for rows in call) == 3


def test_a_block_wider_than_the_window_replays_once_and_is_clamped():
    session = open_fake_session(
        ScriptedDrafter(random_acceptance(3)), recurrent=True, draft_max=7, slice_rows=8, snapshots=6, guard_rows=6
    )
    zero = iter([0] * 100)
    session._drafter.script = drafts_with_acceptance(lambda limit: next(zero))
    result = session.generate(PROMPT, max_tokens=60).result()
    assert list(result.tokens) == plain_decode(PROMPT, 60, N_VOCAB)
    assert result.report.replays == 1
    events = [event["event"] for event in result.report.events]
    assert events == ["replay", "rollback_guard"]
    assert result.report.events[1]["draft_limit"] == 6


def test_without_snapshots_every_partial_round_goes_through_a_checkpoint():
    session = open_fake_session(
        ScriptedDrafter(random_acceptance(4)), recurrent=True, draft_max=4, slice_rows=5, snapshots=0, checkpoint_rows=1
    )
    result = session.generate(PROMPT, max_tokens=60).result()
    assert list(result.tokens) == plain_decode(PROMPT, 60, N_VOCAB)
    assert result.report.replays > 0
    assert result.report.copied_bytes > 0
    assert {event["means"] for event in result.report.events} == {"checkpoint"}


@pytest.mark.parametrize("draft_min", [0, 3, 4])
def test_short_proposals_are_dropped_below_draft_min(draft_min):
    drafter = ScriptedDrafter(lambda history, limit: plain_decode(history, 2, N_VOCAB)[:limit])
    session = open_fake_session(drafter, draft_min=draft_min)
    result = session.generate(PROMPT, max_tokens=20).result()
    assert list(result.tokens) == plain_decode(PROMPT, 20, N_VOCAB)
    assert (result.report.drafted_tokens > 0) == (draft_min == 0)


def first_end_for(at):
    """Choose where the end tokens begin so that plain decoding first ends at index ``at`` or later."""
    tokens = plain_decode(PROMPT, 60, N_VOCAB)
    return max(tokens[:at]) + 1


@pytest.mark.parametrize("at", range(2, 12))
def test_an_end_token_ends_everywhere_in_a_block(at):
    first_end = first_end_for(at)
    truth = list(itertools.takewhile(lambda token: token < first_end, plain_decode(PROMPT, 200, N_VOCAB)))
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: limit))
    session = open_fake_session(drafter, first_end=first_end)
    prompt_end = len(PROMPT)
    result = session.generate(PROMPT, max_tokens=200).result()
    assert result.finish_reason == "stop_token"
    assert list(result.tokens) == truth
    assert result.report.emitted_tokens == len(truth) == 1 + result.report.verified_tokens
    assert len(session.committed_tokens) == prompt_end + len(truth)
    assert fake_context(session).tokens() == list(session.committed_tokens) == drafter.seen


@pytest.mark.parametrize("slice_rows", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_stop_string_cuts_text_and_ends_at_the_same_token_as_plain_decoding(at, length, slice_rows):
    truth = plain_decode(PROMPT, 30, N_VOCAB)
    stop = bytes(truth[at : at + length]).decode("latin-1")
    reference = open_fake_session(None).generate(PROMPT, max_tokens=30, stop=stop).result()
    session = open_fake_session(
        ScriptedDrafter(drafts_with_acceptance(lambda limit: limit)), slice_rows=slice_rows, recurrent=True
    )
    result = session.generate(PROMPT, max_tokens=30, stop=stop).result()
    assert result.finish_reason == reference.finish_reason == "stop_string"
    assert result.tokens == reference.tokens
    assert result.text == reference.text
    assert stop not in result.text
    assert fake_context(session).tokens() == list(session.committed_tokens)
    assert len(session.committed_tokens) == len(PROMPT) + len(result.tokens) - 1


@pytest.mark.parametrize("ctx_tokens", range(len(PROMPT), len(PROMPT) + 12))
def test_a_full_context_ends_the_request_normally(ctx_tokens):
    plain = open_fake_session(None, ctx_tokens=ctx_tokens).generate(PROMPT, max_tokens=50).result()
    session = open_fake_session(ScriptedDrafter(random_acceptance(9)), ctx_tokens=ctx_tokens)
    result = session.generate(PROMPT, max_tokens=50).result()
    assert result.finish_reason == plain.finish_reason == "context_full"
    assert result.tokens == plain.tokens
    assert len(result.tokens) == ctx_tokens - len(PROMPT) + 1


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


def collect(generation, got):
    """Take pieces as they come, so that a fault loses none that was handed out."""
    for piece in generation:
        if piece.token is not None:
            got.append(piece.token)


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


def test_resume_hands_out_no_more_than_it_was_asked_for():
    session = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: limit)))
    generation = session.generate(PROMPT, max_tokens=40)
    got = [piece.token for piece in itertools.islice(generation, 2)]
    for _ in range(10):
        piece = session.resume(max_tokens=1).result()
        assert len(piece.tokens) == 1
        got += piece.tokens
    assert got == plain_decode(PROMPT, 12, N_VOCAB)


def test_cancelling_a_replaced_generation_leaves_its_successor_alone():
    session = open_fake_session(None)
    first = session.generate(PROMPT, max_tokens=20)
    next(first)
    second = session.generate(PROMPT, max_tokens=5)
    first.cancel()
    assert list(second.result().tokens) == plain_decode(PROMPT, 5, N_VOCAB)
    session.close()
    first.cancel()


def test_a_finished_result_outlives_its_session():
    session = open_fake_session(None)
    generation = session.generate(PROMPT, max_tokens=5)
    before = generation.result()
    session.close()
    assert generation.result() == before


def test_run_hands_every_piece_to_a_callback():
    pieces = []
    result = open_fake_session(None).generate(PROMPT, max_tokens=9).run(pieces.append)
    assert [piece.token for piece in pieces if piece.token is not None] == list(result.tokens)
    assert "".join(piece.text for piece in pieces) == result.text


@pytest.mark.parametrize("operation", ["begin", "process", "propose", "accept", "checkpoint"])
def test_whatever_a_drafter_raises_is_reported_as_the_drafters(operation):
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: 1))

    def explode(*args, **kwargs):
        raise ValueError("broken drafter")

    setattr(drafter, operation, explode)
    with pytest.raises(TransactionAborted, match=f"`{operation}`: ValueError"):
        open_fake_session(drafter).generate(PROMPT, max_tokens=9).result()


def test_the_histograms_tell_every_round():
    session = open_fake_session(ScriptedDrafter(random_acceptance(5)))
    report = session.generate(PROMPT, max_tokens=50).result().report
    assert sum(report.accepted_prefix_histogram.values()) == report.rounds
    assert sum(length * n for length, n in report.accepted_prefix_histogram.items()) == report.accepted_tokens
    assert sum(report.draft_limit_histogram.values()) == report.rounds
    assert 0 < report.max_rejected_tokens <= 4


def test_three_requests_on_one_session_equal_three_fresh_sessions():
    prompts = [PROMPT, [9, 8], PROMPT]
    session = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: limit // 2)))
    for prompt in prompts:
        fresh = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: limit // 2)))
        ours, theirs = (s.generate(prompt, max_tokens=25).result() for s in (session, fresh))
        assert ours.tokens == theirs.tokens
        assert ours.report.accepted_tokens == theirs.report.accepted_tokens
        assert ours.report.rounds == theirs.report.rounds


def test_a_new_request_replaces_an_unfinished_one():
    session = open_fake_session(None)
    first = session.generate(PROMPT, max_tokens=20)
    next(first)
    assert list(session.generate(PROMPT, max_tokens=5).result().tokens) == plain_decode(PROMPT, 5, N_VOCAB)
    with pytest.raises(StateError, match="replaced"):
        next(first)


@pytest.mark.parametrize(
    ("prompt", "wrong"), [("", "empty"), ([], "empty"), ([1] * 600, "context holds 512"), ([N_VOCAB], "vocabulary")]
)
def test_a_prompt_that_cannot_be_used_is_refused_before_anything_runs(prompt, wrong):
    session = open_fake_session(None)
    with pytest.raises(PromptError, match=wrong):
        session.generate(prompt)
    assert fake_context(session).evaluations == []


def test_resume_needs_a_request():
    with pytest.raises(StateError, match="no request"):
        open_fake_session(None).resume()


def test_close_frees_everything_once_and_ends_use():
    drafter = ScriptedDrafter(lambda history, limit: [])
    session = open_fake_session(drafter)
    generation = session.generate(PROMPT, max_tokens=5)
    session.close()
    session.close()
    assert drafter.closed
    assert fake_context(session).closed
    with pytest.raises(StateError, match="closed"):
        session.generate(PROMPT)
    with pytest.raises(StateError, match="closed"):
        next(generation)


def test_a_second_thread_is_refused_and_harms_nothing():
    session = open_fake_session(ScriptedDrafter(random_acceptance(2)))
    refused = []

    def intrude(context):
        if len(refused) < 4:
            thread = threading.Thread(target=lambda: refused.extend(errors_of(session)))
            thread.start()
            thread.join()

    fake_context(session).before_evaluate = intrude
    result = session.generate(PROMPT, max_tokens=20).result()
    assert list(result.tokens) == plain_decode(PROMPT, 20, N_VOCAB)
    assert set(refused) == {"state.busy"}


def errors_of(session):
    codes = []
    for call in (session.resume, session.close, lambda: session.generate(PROMPT), lambda: next(session._current)):
        try:
            call()
        except StateError as error:
            codes.append(error.code)
    return codes


def test_a_request_that_never_started_leaves_nothing_to_resume():
    session = open_fake_session(None)
    session.generate(PROMPT, max_tokens=5).result()
    session.generate(PROMPT[::-1])
    with pytest.raises(StateError, match="no request"):
        session.resume()


@pytest.mark.parametrize("shape", [tuple, np.asarray, lambda tokens: np.asarray(tokens, np.int32)])
def test_drafts_and_prompts_may_be_any_sequence_of_integers(shape):
    drafter = ScriptedDrafter(lambda history, limit: shape(plain_decode(history, limit, N_VOCAB)))
    result = open_fake_session(drafter).generate(shape(PROMPT), max_tokens=20).result()
    assert list(result.tokens) == plain_decode(PROMPT, 20, N_VOCAB)
    assert result.report.accepted_tokens == result.report.drafted_tokens > 0


@pytest.mark.parametrize("prompt", [b"ab", {1: 2}, 7, None, [1.5], ["a"], [True, None]])
def test_a_prompt_of_another_type_is_refused(prompt):
    with pytest.raises(PromptError):
        open_fake_session(None).generate(prompt)


@pytest.mark.parametrize("answer", [None, [1, 2], "ab"])
def test_an_answer_that_is_no_proposal_is_the_plugins_fault(answer):
    drafter = ScriptedDrafter(lambda history, limit: [])
    drafter.propose = lambda request: answer
    with pytest.raises(PluginContractError, match="expected a Proposal"):
        open_fake_session(drafter).generate(PROMPT, max_tokens=9).result()
