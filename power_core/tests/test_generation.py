"""The decode loop on fakes: parity with plain decoding for every drafter, limit and stop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from core_sessions import (
    N_VOCAB,
    PROMPT,
    SHAPES,
    drafts_with_acceptance,
    fake_context,
    open_fake_session,
    random_acceptance,
    window,
)
from hypothesis import given
from hypothesis import strategies as st

from power_core.testing.fakes import ScriptedDrafter, plain_decode


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
    layers = np.concatenate([taps.layers for taps in drafter.taps])
    assert layers.shape == (len(rows), 2, fake_context(session).n_embd)
    assert layers[:, :, :3].tolist() == [[row[:3]] * 2 for row in rows]
    assert layers[:, :, -1].tolist() == [[2, 0]] * len(rows)


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


def test_the_histograms_tell_every_round():
    session = open_fake_session(ScriptedDrafter(random_acceptance(5)))
    report = session.generate(PROMPT, max_tokens=50).result().report
    assert sum(report.accepted_prefix_histogram.values()) == report.rounds
    assert sum(length * n for length, n in report.accepted_prefix_histogram.items()) == report.accepted_tokens
    assert sum(report.draft_limit_histogram.values()) == report.rounds
    assert 0 < report.max_rejected_tokens <= 4
