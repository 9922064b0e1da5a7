"""What histories are made of: prompts of lengths that matter, acceptance lengths, tokens that repeat."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from power_core.sampler import SamplingSettings
from power_core.tokens import TokenId

PROMPT_LENGTHS = (1, 2, 5, 31, 32, 33, 50, 64, 65)
"""Around the chunk of 32 rows and the window of 32 positions, and twice that."""

SAMPLINGS = (
    SamplingSettings(temperature=0.8, top_k=40, seed=7),
    SamplingSettings(temperature=1.3, top_p=0.9, min_p=0.01, seed=2**32 - 2),
    SamplingSettings(temperature=1.0, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2, seed=11),
    SamplingSettings(temperature=0.0, repeat_penalty=1.5, repeat_last_n=8),
    SamplingSettings(temperature=2.0, typical_p=0.9, seed=123_456),
    SamplingSettings(temperature=1.2, dry_multiplier=0.8, dry_allowed_length=1, seed=3),
    SamplingSettings(temperature=1.5, xtc_probability=0.6, xtc_threshold=0.05, seed=4),
    SamplingSettings(temperature=1.0, logit_bias=((5, 4.0), (90, -math.inf)), seed=6),
    SamplingSettings(temperature=1.0, grammar='root ::= ([a-z] [a-z]? [a-z]? " ")+', seed=8),
)
"""Every part of the sampler's chain, with and without random draws."""


def prompt_of(length: int, salt: int = 0, n_vocab: int = 512) -> tuple[TokenId, ...]:
    """Return a prompt of ordinary tokens with repeated pieces, the same for the same arguments."""
    period = 5 + salt % 11
    most = min(n_vocab, 400)
    return tuple((7 * (index % period if index % 3 else index) + 11 * salt + 5) % most for index in range(length))


PROMPT = prompt_of(50)
SHORT_PROMPT = prompt_of(9, salt=4)


def prompts(n_vocab: int = 512) -> st.SearchStrategy[tuple[TokenId, ...]]:
    """Prompts of lengths around a chunk and a window."""
    return st.builds(prompt_of, st.sampled_from(PROMPT_LENGTHS), st.integers(0, 9), st.just(n_vocab))


def acceptances(draft_max: int, most_rounds: int = 6) -> st.SearchStrategy[list[int | None]]:
    """How many drafts are right in each of some rounds; None keeps the plugin's own."""
    one = st.one_of(st.integers(0, draft_max), st.none(), st.just(0), st.just(draft_max))
    return st.lists(one, min_size=1, max_size=most_rounds)


def repeated_tokens(count: int, salt: int = 0) -> list[TokenId]:
    """Return tokens in which every short piece occurs again: what a drafter that looks things up drafts from."""
    return [11 + (index + salt) % 6 for index in range(count)]
