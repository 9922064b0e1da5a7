"""Log-probabilities: the raw row's, one entry per emitted token, through rounds, stops and cancellations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_fakes import run_power
from core_sessions import N_VOCAB, PROMPT, open_fake_session, random_acceptance
from hypothesis import given
from hypothesis import strategies as st

from power_core.errors import ConfigError
from power_core.logprobs import measure_logprobs
from power_core.testing.fakes import ScriptedDrafter, plain_decode

LOGITS = st.lists(st.floats(-50, 50, width=32) | st.just(float("-inf")), min_size=1, max_size=40).filter(
    lambda values: max(values) > float("-inf")
)


@given(LOGITS, st.integers(0, 50), st.data())
def test_the_values_are_those_of_the_softmax(values, top, data):
    logits = np.asarray(values, dtype=np.float32)
    token = data.draw(st.sampled_from(np.flatnonzero(np.isfinite(logits)).tolist()))
    found = measure_logprobs(logits, token, top)
    shares = np.exp(logits.astype(np.float64) - logits.max())
    expected = np.log(shares[token] / shares.sum()) if shares[token] > 0 else found.logprob
    assert found.token == token
    assert found.logprob == pytest.approx(expected, abs=1e-9)
    best = sorted(np.flatnonzero(np.isfinite(logits)).tolist(), key=lambda each: (-logits[each], each))[:top]
    assert [each for each, _ in found.top] == best
    assert all(value <= 1e-12 for _, value in found.top)
    assert dict(found.top).get(token, found.logprob) == found.logprob


def test_equal_logits_give_equal_bits_wherever_they_lie_in_memory():
    random = np.random.default_rng(0)
    logits = random.normal(size=1003).astype(np.float32)
    buffer = np.zeros(1100, dtype=np.float32)
    expected = measure_logprobs(logits, 5, 20)
    for offset in range(20):
        view = buffer[offset : offset + 1003]
        view[:] = logits
        assert measure_logprobs(view, 5, 20) == expected


@pytest.mark.parametrize("top", [0, 1, 20])
def test_every_emitted_token_has_an_entry(top):
    session = open_fake_session(ScriptedDrafter(random_acceptance(2)), recurrent=True)
    result = session.generate(PROMPT, max_tokens=30, logprobs=top).result()
    plain = open_fake_session(None).generate(PROMPT, max_tokens=30, logprobs=top).result()
    assert result.logprobs == plain.logprobs
    assert [entry.token for entry in result.logprobs] == list(result.tokens) == plain_decode(PROMPT, 30, N_VOCAB)
    assert {len(entry.top) for entry in result.logprobs} == {top}
    assert top == 0 or all(entry.top[0] == (entry.token, entry.logprob) for entry in result.logprobs)


def test_pieces_carry_their_own_entry_and_nothing_is_measured_unasked():
    session = open_fake_session(ScriptedDrafter(random_acceptance(2)))
    pieces = list(session.generate(PROMPT, max_tokens=9, logprobs=1))
    assert [piece.logprobs.token for piece in pieces if piece.token is not None] == plain_decode(PROMPT, 9, N_VOCAB)
    session.context.logits = None
    result = session.generate(PROMPT, max_tokens=9).result()
    assert result.logprobs is None
    assert "logprobs" not in result.to_dict()


def test_an_end_token_has_no_entry_and_a_stop_string_keeps_its_tokens():
    truth = plain_decode(PROMPT, 30, N_VOCAB)
    session = open_fake_session(ScriptedDrafter(random_acceptance(2)))
    end = next(index for index in range(3, 30) if truth[index] not in truth[:index])
    result = session.generate(PROMPT, max_tokens=30, logprobs=1, stop_tokens=[truth[end]]).result()
    assert [entry.token for entry in result.logprobs] == list(result.tokens) == truth[:end]
    stop = bytes(truth[4:6]).decode("latin-1")
    result = session.generate(PROMPT, max_tokens=30, logprobs=1, stop=stop).result()
    assert len(result.logprobs) == len(result.tokens)


def test_resuming_continues_the_entries():
    truth = plain_decode(PROMPT, 20, N_VOCAB)
    session = open_fake_session(ScriptedDrafter(random_acceptance(4)))
    first = session.generate(PROMPT, max_tokens=7, logprobs=2).result()
    more = session.resume(max_tokens=13).result()
    entries = [*first.logprobs, *more.logprobs]
    assert [entry.token for entry in entries] == truth
    assert entries[7:] == list(
        open_fake_session(None).generate(PROMPT, max_tokens=20, logprobs=2).result().logprobs[7:]
    )


def test_beginning_drops_earlier_entries():
    session = open_fake_session(None)
    generation = session.generate(PROMPT, max_tokens=3, logprobs=1)
    generation.result()
    recording = generation._parts.sampler
    assert len(recording.records) == 3
    recording.begin(PROMPT)
    assert recording.records == []


def test_a_failed_round_takes_its_entries_back():
    session = open_fake_session(ScriptedDrafter(random_acceptance(4)), slice_rows=2, snapshots=1, recurrent=True)
    generation = session.generate(PROMPT, max_tokens=20, logprobs=1)
    got = [next(generation) for _ in range(3)]
    calls = []

    def fail(context):
        calls.append(context)
        if len(calls) == 2:
            raise OSError("injected")

    session.context.before_evaluate = fail
    entries = [piece.logprobs for piece in got]
    try:
        entries += [piece.logprobs for piece in generation if piece.token is not None]
    except OSError:
        session.context.before_evaluate = None
        entries += session.resume(max_tokens=20 - len(entries)).result().logprobs
    assert calls
    assert [entry.token for entry in entries] == plain_decode(PROMPT, 20, N_VOCAB)


def test_device_sampling_keeps_logits_away():
    session = open_fake_session(None)
    object.__setattr__(session.settings, "device_sampling", "on")
    with pytest.raises(ConfigError, match="logprobs"):
        session.generate(PROMPT, logprobs=1)


def test_json_has_plain_values():
    session = open_fake_session(None)
    shown = json.loads(json.dumps(session.generate(PROMPT, max_tokens=2, logprobs=1).result().to_dict()))
    entry = shown["logprobs"][0]
    assert entry == {
        "token": shown["tokens"][0],
        "logprob": entry["logprob"],
        "top": [{"token": shown["tokens"][0], "logprob": entry["logprob"]}],
    }


def test_the_command_line_shows_them_in_json_only(capsys):
    outcome = run_power(capsys, "generate", "--prompt", "x", "--logprobs", "2")
    assert "--logprobs needs --json" in outcome.require_one_line_error("config.usage")
