"""A session on any target with a drafter that is given, nothing negotiated; and the adversarial drafters."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from power_core.drafter import Drafter
from power_core.session import Session, SessionPlan
from power_core.settings import SessionSettings
from power_core.target import ContextSettings, TargetModel
from power_core.testing.fakes import ScriptedDrafter
from power_core.tokens import TokenId

Truth = dict[tuple[TokenId, ...], Sequence[TokenId]]
Lengths = Callable[[random.Random, int], int]

ADVERSARIES: Mapping[str, Lengths] = {
    "always right": lambda rng, limit: limit,
    "always wrong": lambda rng, limit: 0,
    "wrong at 1": lambda rng, limit: min(1, limit),
    "wrong at 2": lambda rng, limit: min(2, limit),
    "random": lambda rng, limit: rng.randint(0, limit),
}
"""Name -> how many of the drafts are right; the next one is wrong."""


def open_scripted_session(
    model: TargetModel,
    drafter: Drafter | None,
    *,
    draft_max: int = 4,
    slice_rows: int = 5,
    ctx_tokens: int = 256,
    batch_rows: int = 64,
    threads: int = 1,
) -> Session:
    """Open a session on a loaded model, which stays open after it."""
    snapshots = slice_rows - 1 if model.info.recurrent else 0
    context = model.open_context(
        ContextSettings(ctx_tokens=ctx_tokens, batch_rows=batch_rows, snapshots=snapshots, threads=threads)
    )
    resources = ExitStack()
    resources.callback(context.close)
    return Session(
        settings=SessionSettings(),
        plan=SessionPlan(strategy="scripted", draft_max=draft_max if drafter else 0, slice_rows=slice_rows),
        model=model,
        context=context,
        drafter=drafter,
        taps=False,
        resources=resources,
    )


def adversary(truth: Truth, lengths: Lengths, n_vocab: int, seed: int = 0) -> ScriptedDrafter:
    """Return a drafter that knows what comes, for the prompts in ``truth``, and is wrong on purpose.

    Args:
        truth: Prompt to what plain decoding emits after it; may change between requests.
        lengths: One of ``ADVERSARIES``.
        n_vocab: Vocabulary size.
        seed: Seed of the drafter's own random stream.
    """
    rng = random.Random(seed)

    def script(history: list[TokenId], limit_tokens: int) -> Sequence[TokenId]:
        for prompt, tokens in truth.items():
            if tuple(history[: len(prompt)]) == prompt:
                at = len(history) - len(prompt)
                following = list(tokens[at : at + limit_tokens])
                right = lengths(rng, len(following))
                if right < len(following):
                    following[right] = (following[right] + 1 + rng.randrange(n_vocab - 1)) % n_vocab
                return following
        return []

    return ScriptedDrafter(script)
