"""With the same seed, speculative and plain decoding give the same tokens, log-probabilities and endings."""

import pytest

from power_core.sampler import SamplingSettings
from power_core.testing.samplings import SAMPLINGS
from power_core.testing.scripted import ADVERSARIES, adversary, open_scripted_session

pytestmark = pytest.mark.native

PROMPT = [(7 * index + 11) % 400 for index in range(21)]
TOKENS = 24
KINDS = ("hybrid", "attention")
NO_TEXT = dict.fromkeys([0, *range(128, 256), *range(508, 512)], float("-inf"))
"""Tokens of the tiny targets that are no text of their own: parts of characters, and control tokens."""


@pytest.fixture(scope="module", params=KINDS)
def sessions(request, models):
    """A plain session, one per adversary, and the truth that the adversaries know."""
    model, truth = models[request.param], {}
    plain = open_scripted_session(model, None)
    speculative = {
        name: open_scripted_session(model, adversary(truth, lengths, 512), slice_rows=3 if "wrong" in name else 5)
        for name, lengths in ADVERSARIES.items()
    }
    yield plain, speculative, truth
    for session in (plain, *speculative.values()):
        session.close()


@pytest.mark.parametrize("name", SAMPLINGS)
def test_every_sampler_with_every_adversary(sessions, name):
    plain, speculative, truth = sessions
    request = {"max_tokens": TOKENS, "sampling": SAMPLINGS[name], "logprobs": 3}
    expected = plain.generate(PROMPT, **request).result()
    truth[tuple(PROMPT)] = expected.tokens
    for drafter, session in speculative.items():
        result = session.generate(PROMPT, **request).result()
        assert result.tokens == expected.tokens, drafter
        assert result.finish_reason == expected.finish_reason, drafter
        assert result.logprobs == expected.logprobs, drafter
        assert len(result.logprobs) == len(result.tokens)
    if len(expected.tokens) > 8:
        rounds = {drafter: session._current.report.rounds for drafter, session in speculative.items()}
        assert rounds["always right"] < rounds["random"] <= rounds["always wrong"] == len(expected.tokens) - 1


def test_a_drafters_random_stream_never_touches_the_targets(sessions):
    """Drafters that draw from other seeds, or more numbers, change nothing."""
    plain, speculative, truth = sessions
    sampling = SamplingSettings(temperature=1.5, seed=77)
    expected = plain.generate(PROMPT, max_tokens=TOKENS, sampling=sampling).result().tokens
    truth[tuple(PROMPT)] = expected
    outputs = set()
    for _ in range(4):
        for session in speculative.values():
            outputs.add(session.generate(PROMPT, max_tokens=TOKENS, sampling=sampling).result().tokens)
    assert outputs == {expected}


@pytest.mark.parametrize("name", ["draw", "dry", "all"])
def test_a_cancelled_request_resumes_with_the_samplers_state(sessions, name):
    plain, speculative, truth = sessions
    request = {"sampling": SAMPLINGS[name], "logprobs": 2}
    expected = plain.generate(PROMPT, max_tokens=TOKENS, **request).result()
    truth[tuple(PROMPT)] = expected.tokens
    session = speculative["random"]
    got, logprobs = [], []
    generation = session.generate(PROMPT, max_tokens=TOKENS, **request)
    for steps in (3, 5, 7, TOKENS):
        for piece in generation:
            if piece.token is None:
                continue
            got.append(piece.token)
            logprobs.append(piece.logprobs)
            steps -= 1
            if steps == 0:
                generation.cancel()
        if generation.finish_reason != "cancelled":
            break
        generation = session.resume(max_tokens=TOKENS - len(got))
    assert tuple(got) == expected.tokens
    assert tuple(logprobs) == expected.logprobs


@pytest.mark.parametrize("kind", ["end", "stop token", "stop string", "grammar"])
@pytest.mark.parametrize("at", [1, 3, 4, 5])
def test_ends_in_blocks(sessions, kind, at):
    """The finish rules on a real target: a stop in every place of a block of four drafts, and budgets around it."""
    plain, speculative, truth = sessions
    free = {"sampling": SamplingSettings(temperature=1.0, seed=at, logit_bias=NO_TEXT)}
    tokens = plain.generate(PROMPT, max_tokens=12, **free).result().tokens
    vocabulary = plain.model.vocabulary
    grammar = "root ::= " + " ".join(f"<[{token}]>" for token in tokens[:at])
    ends = {
        "end": {"sampling": SamplingSettings(grammar=grammar)},
        "stop token": {**free, "stop_tokens": [tokens[at]]},
        "stop string": {**free, "stop": vocabulary.token_bytes(tokens[at]).decode()},
        "grammar": {"sampling": SamplingSettings(temperature=1.0, seed=at, grammar=grammar)},
    }[kind]
    for budget in (at - 1, at, at + 1, at + 2, 12):
        expected = plain.generate(PROMPT, max_tokens=budget, **ends).result()
        truth[tuple(PROMPT)] = [*expected.tokens, 508, *tokens]
        for drafter, session in speculative.items():
            result = session.generate(PROMPT, max_tokens=budget, **ends).result()
            assert (result.tokens, result.text) == (expected.tokens, expected.text), drafter
            assert result.finish_reason == expected.finish_reason, drafter
    if kind in ("end", "grammar"):
        assert (expected.tokens, expected.finish_reason) == (tokens[:at], "grammar_end")
