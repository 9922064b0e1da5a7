"""Sampling settings in which every sampler occurs, alone and together."""

from __future__ import annotations

from collections.abc import Mapping

from power_core.sampler import SamplingSettings

LETTERS_GRAMMAR = 'root ::= word (" " word)*\nword ::= [a-z]+'

SAMPLINGS: Mapping[str, SamplingSettings] = {
    "draw": SamplingSettings(temperature=1.5, seed=7),
    "bias": SamplingSettings(temperature=1.2, logit_bias=dict.fromkeys(range(0, 400, 3), -2.0), seed=1),
    "repetition": SamplingSettings(temperature=1.0, repeat_penalty=1.4, repeat_last_n=16, seed=2),
    "frequency": SamplingSettings(temperature=1.0, frequency_penalty=0.7, repeat_last_n=-1, seed=3),
    "presence": SamplingSettings(temperature=0.0, presence_penalty=3.0, repeat_last_n=8),
    "dry": SamplingSettings(temperature=0.3, top_k=4, dry_multiplier=2.0, dry_allowed_length=1, seed=4),
    "top-k": SamplingSettings(temperature=1.5, top_k=12, seed=5),
    "typical": SamplingSettings(temperature=1.5, typical_p=0.7, seed=6),
    "top-p": SamplingSettings(temperature=1.5, top_p=0.8, seed=8),
    "min-p": SamplingSettings(temperature=1.5, min_p=0.05, seed=9),
    "xtc": SamplingSettings(temperature=1.2, xtc_probability=0.6, xtc_threshold=0.02, seed=10),
    "xtc-greedy": SamplingSettings(temperature=0.0, xtc_probability=0.5, xtc_threshold=0.02, seed=11),
    "grammar": SamplingSettings(temperature=1.3, grammar=LETTERS_GRAMMAR, seed=12),
    "grammar-greedy": SamplingSettings(temperature=0.0, grammar=LETTERS_GRAMMAR),
    "all": SamplingSettings(
        temperature=1.3,
        logit_bias={40: 1.5, 41: float("-inf")},
        repeat_penalty=1.2,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        repeat_last_n=32,
        dry_multiplier=0.8,
        dry_penalty_last_n=-1,
        top_k=200,
        typical_p=0.99,
        top_p=0.98,
        min_p=0.001,
        xtc_probability=0.3,
        xtc_threshold=0.05,
        grammar=LETTERS_GRAMMAR,
        seed=13,
    ),
}
"""One entry per sampler, by name; every field of ``SamplingSettings`` but ``grammar_file`` is used somewhere."""
