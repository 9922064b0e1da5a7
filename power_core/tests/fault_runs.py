"""Cancellations, aborts inside native compute and injected failures at random steps of random rounds.

After each, the same sequence continues from its last committed token and a new request runs; both equal a fresh run in
tokens and in the logits that follow. For every drafter with a draft graph.
"""

import random

import numpy as np

from power_core.errors import PowerError
from power_core.opening import open_session
from power_core.testing.parity import forced_session, fresh_logits, next_logits, reference, text_prompts

COMMON = {"ctx": 512, "batch": 64, "threads": 1}
TOKENS = 32


class InjectedError(Exception):
    """A failure that nobody expects."""


def break_once(owner, name, countdown):
    """Make a method raise at its ``countdown``-th call; return a function that puts it back."""
    original = getattr(owner, name)
    calls = []

    def broken(*args, **kwargs):
        calls.append(name)
        if len(calls) == countdown:
            raise InjectedError(name)
        return original(*args, **kwargs)

    setattr(owner, name, broken)

    def heal():
        setattr(owner, name, original)

    return heal


def arm(session, rng):
    """Arm one random fault; return its name and a function that disarms it."""
    context, drafter = session.context, session._drafter
    name = rng.choice(["target abort", "draft abort", "propose", "process", "accept", "sample", "evaluate"])
    if name == "target abort":
        context.abort_after(rng.randint(0, 500))
        return name, lambda: context.abort_after(-1)
    if name == "draft abort":
        draft_context = drafter._inner._graph._context
        draft_context.abort_after(rng.randint(0, 60))
        return name, lambda: draft_context.abort_after(-1)
    owner = {"sample": session._sampler, "evaluate": context}.get(name, drafter)
    return name, break_once(owner, name, rng.randint(1, 9))


def collect(generation, got, rng):
    """Take pieces until the end, a fault, or a random cancellation; True when something interrupted."""
    cancel_at = rng.choice([None, None, rng.randint(0, TOKENS)])
    try:
        for piece in generation:
            if piece.token is not None:
                got.append(piece.token)
            if cancel_at is not None and len(got) >= cancel_at:
                generation.cancel()
                cancel_at = None
    except (PowerError, InjectedError):
        return True
    return generation.finish_reason == "cancelled"


def run_with_faults(session, prompt, tokens, rng, most_faults):
    """Decode ``tokens`` through at most ``most_faults`` faults; return what came out and the faults that struck."""
    got, struck = [], 0
    generation = session.generate(prompt, max_tokens=len(tokens))
    while len(got) < len(tokens):
        name, disarm = arm(session, rng) if struck < most_faults else ("none", lambda: None)
        interrupted = collect(generation, got, rng if name != "none" else random.Random(0))
        disarm()
        struck += interrupted
        if not session.committed_tokens:
            generation = session.generate(prompt, max_tokens=len(tokens))
        elif len(got) < len(tokens):
            generation = session.resume(max_tokens=len(tokens) - len(got))
    return got, struck


def check_faults(model, spec, faults, **settings):
    """Run until ``faults`` have struck; every run must equal plain decoding, in tokens and in the state it leaves."""
    truth = reference(model, text_prompts(8), TOKENS, **COMMON)
    rng = random.Random(3)
    struck = 0
    with (
        forced_session(model, truth, "partial", spec, **COMMON, **settings) as session,
        open_session(model=model, spec="off", **COMMON) as other,
    ):
        while struck < faults:
            prompt, tokens = rng.choice(list(truth.items()))
            got, new = run_with_faults(session, prompt, tokens, rng, 5)
            struck += new
            assert got == tokens
            generated = session.committed_tokens[len(prompt) :]
            ours = next_logits(session.context, tokens[:8])
            np.testing.assert_array_equal(ours, fresh_logits(other.context, prompt, generated, tokens[:8]))
            other_prompt, other_tokens = rng.choice(list(truth.items()))
            assert list(session.generate(other_prompt, max_tokens=TOKENS).result().tokens) == other_tokens
