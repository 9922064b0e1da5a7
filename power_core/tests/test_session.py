"""Sessions on fakes: one request after another, what is handed out, who may call, what is refused."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from core_sessions import (
    N_VOCAB,
    PROMPT,
    drafts_with_acceptance,
    fake_context,
    open_fake_session,
    random_acceptance,
)

from power_core.errors import (
    ConfigError,
    PromptError,
    StateError,
)
from power_core.testing.fakes import ScriptedDrafter, plain_decode


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


def test_a_refused_request_leaves_the_last_one_to_go_on(monkeypatch):
    session = open_fake_session(ScriptedDrafter(random_acceptance(4)))
    first = session.generate(PROMPT, max_tokens=10).result()
    running = session.resume(max_tokens=20)
    pieces = [next(running).token for _ in range(3)]

    def refuse(settings):
        raise ConfigError("planted", field="grammar")

    monkeypatch.setattr(session.context, "open_sampler", refuse)
    with pytest.raises(ConfigError, match="planted"):
        session.generate(PROMPT[:5], max_tokens=10)
    rest = [piece.token for piece in running if piece.token is not None]
    assert [*first.tokens, *pieces, *rest] == plain_decode(PROMPT, 30, N_VOCAB)


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
