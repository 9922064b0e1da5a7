"""From sampling settings to the library's structure. Buffers live as long as the structure that points to them."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from power_core.grammar import read_grammar
from power_core.sampler import SamplingSettings
from power_core.tokens import TokenId
from power_native import _raw


def sampler_parameters(settings: SamplingSettings, ctx_tokens: int) -> _raw.power_sampler_params:
    """Return the structure for a context of ``ctx_tokens``; no window is larger than that.

    Raises:
        ConfigError: the grammar's file cannot be read.
    """
    tokens, values = _bias_arrays(settings.logit_bias)
    breakers = b"".join(breaker.encode() + b"\0" for breaker in settings.dry_sequence_breakers)
    grammar = read_grammar(settings).encode()
    return _raw.power_sampler_params(
        size=ctypes.sizeof(_raw.power_sampler_params),
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        typical_p=settings.typical_p,
        repeat_penalty=settings.repeat_penalty,
        frequency_penalty=settings.frequency_penalty,
        presence_penalty=settings.presence_penalty,
        repeat_last_n=_window_tokens(settings.repeat_last_n, ctx_tokens),
        dry_multiplier=settings.dry_multiplier,
        dry_base=settings.dry_base,
        dry_allowed_length=settings.dry_allowed_length,
        dry_penalty_last_n=_window_tokens(settings.dry_penalty_last_n, ctx_tokens),
        xtc_probability=settings.xtc_probability,
        xtc_threshold=settings.xtc_threshold,
        seed=settings.seed,
        n_biases=len(settings.logit_bias),
        bias_tokens=ctypes.cast(tokens, ctypes.POINTER(ctypes.c_int32)),
        bias_values=ctypes.cast(values, ctypes.POINTER(ctypes.c_float)),
        dry_breakers=breakers,
        dry_breakers_bytes=len(breakers),
        grammar=grammar,
        grammar_bytes=len(grammar),
    )


@lru_cache(maxsize=4)
def _bias_arrays(biases: tuple[tuple[TokenId, float], ...]) -> tuple[Any, Any]:
    """Tokens and values, kept for the requests that differ in other settings."""
    tokens = (ctypes.c_int32 * len(biases))(*(token for token, _ in biases))
    return tokens, (ctypes.c_float * len(biases))(*(value for _, value in biases))


def _window_tokens(asked_tokens: int, ctx_tokens: int) -> int:
    """-1 means the whole context. The library allocates the window at once, hence the limit."""
    return ctx_tokens if asked_tokens < 0 else min(asked_tokens, ctx_tokens)
