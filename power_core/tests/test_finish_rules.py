"""Every way to end x place in the block x remaining budget: it ends exactly where plain decoding does.

Index 0 of the truth comes from the prompt's last row; the first block has four drafts, for indices 1 to 4.
"""

from __future__ import annotations

import itertools

import pytest
from core_sessions import N_VOCAB, drafts_with_acceptance, fake_context, open_fake_session

from power_core.sampler import SamplingSettings
from power_core.testing.fakes import ScriptedDrafter, plain_decode

DRAFTS = 4
PROMPT = next(
    prompt
    for prompt in ([salt, salt + 1, 7, 9] * 4 for salt in itertools.count(1))
    if len(set(plain_decode(prompt, 12, N_VOCAB))) == 12
)
TRUTH = plain_decode(PROMPT, 40, N_VOCAB)

PLACES = {
    "first draft": (1, DRAFTS),
    "middle draft": (2, DRAFTS),
    "last draft": (4, DRAFTS),
    "correction of the first": (1, 0),
    "correction": (3, 2),
    "bonus": (5, DRAFTS),
}
"""Name -> (index in the truth where the end stands, accepted drafts of the first block)."""

ENDS_BEFORE = {"model's end": "stop_token", "stop token": "stop_token", "grammar's end": "grammar_end"}
ENDS_AFTER = {"stop string": "stop_string", "full context": "context_full"}
KINDS = {**ENDS_BEFORE, **ENDS_AFTER}
ONE_REQUEST = {"model's end", "grammar's end"}
"""Not both: a request has a grammar or has none."""
PAIRS = [pair for pair in itertools.permutations(KINDS, 2) if set(pair) != ONE_REQUEST]


def run(ends, max_tokens, accepted, *, speculative=True, cancel_at=None):
    """Run one request; ``ends`` maps kinds of ends to the index where each stands."""
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: accepted)) if speculative else None
    full_at = ends.get("full context", 400)
    session = open_fake_session(drafter, draft_max=DRAFTS, ctx_tokens=len(PROMPT) + full_at, recurrent=True)
    model_ends = {TRUTH[at] for kind, at in ends.items() if kind in ("model's end", "grammar's end")}
    session.model.vocabulary.is_end = model_ends.__contains__
    stop_at = ends.get("stop string")
    generation = session.generate(
        PROMPT,
        max_tokens=max_tokens,
        stop=() if stop_at is None else bytes(TRUTH[stop_at - 1 : stop_at + 1]).decode("latin-1"),
        stop_tokens=[TRUTH[at] for kind, at in ends.items() if kind == "stop token"],
        sampling=SamplingSettings(grammar="root ::= .*" if "grammar's end" in ends else ""),
    )
    for piece in generation:
        if cancel_at is not None and piece.token == TRUTH[cancel_at]:
            generation.cancel()
    return session, generation.result()


def expected_of(ends, max_tokens):
    """Return (number of tokens, reason): the first index wins, at equal ones the first of this order.

    An end token stands at its own index and is not emitted; everything else stands at the last token that it lets out.
    """
    order = ["grammar's end", "model's end", "stop token", "stop string", "length", "full context"]
    stands = {**ends, "length": max_tokens - 1}
    kind = min(stands, key=lambda each: (stands[each], order.index(each)))
    return stands[kind] + (kind not in ENDS_BEFORE), {**KINDS, "length": "length"}[kind]


def check(ends, max_tokens, accepted):
    session, result = run(ends, max_tokens, accepted)
    _, plain = run(ends, max_tokens, accepted, speculative=False)
    count, reason = expected_of(ends, max_tokens)
    assert (list(result.tokens), result.finish_reason) == (TRUTH[:count], reason)
    assert (plain.tokens, plain.finish_reason, plain.text) == (result.tokens, result.finish_reason, result.text)
    assert result.report.emitted_tokens == count
    assert result.report.verified_tokens == max(count - 1, 0)
    committed = [*PROMPT, *TRUTH][: len(session.committed_tokens)]
    assert fake_context(session).tokens() == list(session.committed_tokens) == committed
    if reason in ("stop_token", "grammar_end", "stop_string"):
        in_memory = len(PROMPT) + count - (reason == "stop_string")
        assert len(committed) == in_memory


@pytest.mark.parametrize("budget", [-1, 0, 1, 9], ids=lambda budget: f"budget{budget:+d}")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_end(kind, place, budget):
    """``budget`` counts from the tokens that this end lets through."""
    at, accepted = PLACES[place]
    check({kind: at}, at + (kind in ENDS_AFTER) + budget, accepted)


@pytest.mark.parametrize("accepted", [DRAFTS, 1])
@pytest.mark.parametrize(("first_at", "second_at"), [(2, 3), (3, 3), (4, 5)])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_ends_in_one_block(first, second, first_at, second_at, accepted):
    check({first: first_at, second: second_at}, 30, accepted)


@pytest.mark.parametrize("kind", KINDS)
def test_an_end_at_the_first_token(kind):
    """The first token comes from the prompt; a stop string needs one more here."""
    at = 1 if kind == "stop string" else 0
    check({kind: at}, 30, DRAFTS)


@pytest.mark.parametrize("accepted", [0, 2, DRAFTS])
@pytest.mark.parametrize("cancel_at", range(1, 7))
def test_cancel_keeps_what_was_committed_and_nothing_else(cancel_at, accepted):
    session, result = run({}, 30, accepted, cancel_at=cancel_at)
    assert result.finish_reason == "cancelled"
    assert cancel_at < len(result.tokens) <= cancel_at + DRAFTS + 1
    assert list(result.tokens) == TRUTH[: len(result.tokens)]
    assert fake_context(session).tokens() == list(session.committed_tokens)


@pytest.mark.parametrize(
    ("ends", "max_tokens", "reason"),
    [({}, 4, "cancelled"), ({"stop string": 3}, 30, "stop_string"), ({"full context": 3}, 30, "cancelled")],
)
def test_cancel_at_the_last_token(ends, max_tokens, reason):
    """A stop string that is complete has ended the request; a limit that the next step would find has not."""
    _, result = run(ends, max_tokens, DRAFTS, cancel_at=3)
    assert result.finish_reason == reason


def test_a_stop_token_may_be_passed_by_resuming_without_it():
    session, result = run({"stop token": 3}, 30, DRAFTS)
    assert len(result.tokens) == 3
    more = session.resume(max_tokens=5).result()
    assert list(more.tokens) == TRUTH[3:8]


def test_a_resumed_request_hands_out_no_more_than_its_budget():
    """Tokens of a finished round may still wait when a request is left and another budget takes over."""
    session, _ = run({}, 1, DRAFTS)
    generation = session.resume(max_tokens=30)
    next(generation)
    assert [len(session.resume(max_tokens=budget).result().tokens) for budget in (1, 2)] == [1, 2]
    assert list(session.resume(max_tokens=2).result().tokens) == TRUTH[5:7]
