"""Greedy parity and exact state on the real library: every target kind, forced acceptance, every width and window."""

from __future__ import annotations

import random

import numpy as np
import pytest

from power_core.opening import open_session
from power_core.testing.models import build_tiny_target
from power_core.testing.parity import (
    FORCED,
    forced_session,
    fresh_logits,
    next_logits,
    reference,
    run_parity,
    text_prompts,
)

pytestmark = pytest.mark.native

KINDS = ["hybrid", "attention", "sliding-window"]
COMMON = {"ctx": 512, "batch": 64, "threads": 1}
SIZES = {"short": (3, 40), "whole": (50, 200)}
SIZE_PARAMS = ["short", pytest.param("whole", marks=[pytest.mark.full, pytest.mark.slow])]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity-models")
    return {kind: build_tiny_target(folder / f"{kind}.gguf", kind=kind, seed=5) for kind in KINDS}


@pytest.fixture(scope="session")
def truth_of(models):
    known = {}

    def truth(kind, size="short"):
        if (kind, size) not in known:
            prompts, tokens = SIZES[size]
            known[kind, size] = reference(models[kind], text_prompts(prompts), tokens, **COMMON)
        return known[kind, size]

    return truth


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_varied_enough_to_mean_something(truth_of, kind):
    truth = truth_of(kind)
    assert all(len(set(tokens)) > 3 for tokens in truth.values())
    assert len({tuple(tokens) for tokens in truth.values()}) == len(truth)


@pytest.mark.parametrize("forced", list(FORCED))
@pytest.mark.parametrize("draft_max", [1, 2, 4, 7, 16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", ["one", "all"])
@pytest.mark.parametrize("size", SIZE_PARAMS)
def test_forced_acceptance_equals_plain_decoding(models, truth_of, size, kind, draft_max, forced, window):
    snapshots = 1 if window == "one" else draft_max
    run = run_parity(
        models[kind], truth_of(kind, size), forced, "scripted", draft_max=draft_max, snapshots=snapshots, **COMMON
    )
    assert run.differing == ()
    assert run.replays == 0
    if forced == "zero":
        assert run.accepted_tokens == 0 < run.drafted_tokens
    if forced == "full":
        assert run.accepted_tokens == run.drafted_tokens > 0
    if forced == "partial":
        assert 0 < run.accepted_tokens < run.drafted_tokens


@pytest.mark.parametrize("forced", list(FORCED))
def test_a_block_in_one_piece_replays_once_then_stays_in_the_window(models, truth_of, forced):
    run = run_parity(
        models["hybrid"], truth_of("hybrid"), forced, "scripted", draft_max=7, snapshots=3, verify_rows="all", **COMMON
    )
    assert run.differing == ()
    assert run.replays <= run.prompts
    assert (run.replays > 0) == (forced != "full")


@pytest.mark.parametrize("verify_rows", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_every_slice_width_gives_the_same_tokens(models, truth_of, kind, verify_rows):
    run = run_parity(
        models[kind], truth_of(kind), "partial", "scripted", draft_max=9, verify_rows=verify_rows, **COMMON
    )
    assert run.differing == ()


def go_back(context, mark):
    """Undo probing rows: by truncation where there is no recurrent state, else by the checkpoint."""
    if context.can_truncate(mark.length_tokens):
        context.truncate(mark.length_tokens)
    else:
        context.restore(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_after_every_round_is_that_of_a_fresh_context(models, truth_of, kind):
    prompt, tokens = max(truth_of(kind).items(), key=lambda item: len(item[1]))
    settings = {"draft_max": 5, "snapshots": 3, **COMMON}
    with (
        forced_session(models[kind], truth_of(kind), "partial", "scripted", seed=2, **settings) as session,
        open_session(model=models[kind], spec="off", **COMMON) as other,
    ):
        generation = session.generate(prompt, max_tokens=len(tokens))
        rounds_seen = -1
        for _ in generation:
            if generation.report.rounds == rounds_seen:
                continue
            rounds_seen = generation.report.rounds
            committed = session.committed_tokens
            probe = (tokens + tokens)[len(committed) - len(prompt) :][:8]
            mark = session.context.checkpoint()
            ours = next_logits(session.context, probe)
            go_back(session.context, mark)
            theirs = fresh_logits(other.context, prompt, committed[len(prompt) :], probe)
            np.testing.assert_array_equal(ours, theirs)
        assert rounds_seen > 5


def interrupted_run(session, prompt, tokens, rng, most_aborts):
    """Decode with aborts inside native compute at random nodes; return the tokens and the number of aborts."""
    got, aborts = [], 0
    generation = session.generate(prompt, max_tokens=len(tokens))
    while len(got) < len(tokens):
        if aborts < most_aborts:
            session.context.abort_after(rng.randint(0, 400))
        got += [piece.token for piece in generation if piece.token is not None]
        session.context.abort_after(-1)
        if generation.finish_reason == "cancelled":
            aborts += 1
        if not session.committed_tokens:
            generation = session.generate(prompt, max_tokens=len(tokens))
        elif len(got) < len(tokens):
            generation = session.resume(max_tokens=len(tokens) - len(got))
    return got, aborts


@pytest.mark.parametrize("wanted_aborts", [25, pytest.param(500, marks=[pytest.mark.full, pytest.mark.slow])])
@pytest.mark.parametrize("kind", ["hybrid", "attention"])
def test_aborts_inside_native_compute_lose_nothing(models, truth_of, kind, wanted_aborts):
    rng = random.Random(7)
    aborted = 0
    with (
        forced_session(models[kind], truth_of(kind), "partial", "scripted", draft_max=5, **COMMON) as session,
        open_session(model=models[kind], spec="off", **COMMON) as other,
    ):
        while aborted < wanted_aborts:
            prompt, tokens = rng.choice(list(truth_of(kind).items()))
            got, aborts = interrupted_run(session, prompt, tokens, rng, 6)
            aborted += aborts
            assert got == tokens
            committed = session.committed_tokens
            ours = next_logits(session.context, tokens[:8])
            np.testing.assert_array_equal(
                ours, fresh_logits(other.context, prompt, committed[len(prompt) :], tokens[:8])
            )


@pytest.mark.parametrize("forced", list(FORCED))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.9, "seed": 11},
        {"temperature": 1.5, "top_k": 40, "top_p": 0.95, "min_p": 0.02, "seed": 3},
        {"temperature": 0.7, "repeat_penalty": 1.3, "presence_penalty": 0.2, "frequency_penalty": 0.1, "seed": 5},
        {"repeat_penalty": 1.5},
    ],
    ids=["temperature", "truncated", "penalties", "greedy-with-penalty"],
)
def test_a_fixed_seed_gives_the_same_tokens_with_and_without_drafts(models, kind, sampling, forced):
    prompt = tuple(range(40, 60))
    with open_session(model=models[kind], spec="off", **COMMON) as session:
        plain = session.generate(prompt, max_tokens=40, **sampling).result().tokens
    truth = {prompt: list(plain)}
    with forced_session(models[kind], truth, forced, "scripted", draft_max=6, **COMMON) as session:
        ours = session.generate(prompt, max_tokens=40, **sampling).result()
    assert ours.tokens == plain
    assert (ours.report.accepted_tokens > 0) == (forced != "zero")
