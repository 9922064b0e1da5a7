"""Prompts as token ids: they repeat themselves, so that a drafter that looks tokens up finds something too."""

from __future__ import annotations

import random

PROMPT_TOKENS = 24


def repeating_prompt(seed: int, length: int = PROMPT_TOKENS) -> tuple[int, ...]:
    """Return a prompt made of a short pattern with a few exceptions; the same for the same arguments."""
    rng = random.Random(seed)
    pattern = rng.sample(range(3, 200), k=rng.randint(3, 6))
    tokens = (pattern * length)[:length]
    for at in rng.sample(range(length), k=max(1, length // 12)):
        tokens[at] = rng.randrange(3, 200)
    return tuple(tokens)
