"""The sampler protocol: the target's own choice at a row, with state that can go back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

from power_core.errors import out_of_range
from power_core.tokens import TokenId

SamplerSnapshot: TypeAlias = Any

DRY_BREAKERS = ("\n", ":", '"', "*")
MOST_GRAMMAR_BYTES = 1_048_576
_MOST_BREAKERS = 64
_MOST_BREAKER_BYTES = 40

_WHOLE: dict[str, tuple[int, int]] = {
    "top_k": (0, 2**31 - 1),
    "repeat_last_n": (-1, 2**31 - 1),
    "dry_allowed_length": (0, 2**31 - 1),
    "dry_penalty_last_n": (-1, 2**31 - 1),
    "seed": (0, 2**32 - 2),  # the library reads 2**32 - 1 as "random"
}
_NUMBERS: dict[str, tuple[float, float]] = {
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "typical_p": (0.0, 1.0),
    "repeat_penalty": (1e-6, 1e6),
    "frequency_penalty": (-1e6, 1e6),
    "presence_penalty": (-1e6, 1e6),
    "dry_multiplier": (0.0, 1e6),
    "dry_base": (1.0, 1e6),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
}


class _Biases(tuple[tuple[TokenId, float], ...]):
    """Checked pairs, sorted by token: settings that differ in a seed alone do not look through them again."""


def _bias_pairs(value: Any) -> Any:
    """Check and sort the biases; what is refused is returned for the message, not as ``_Biases``."""
    if isinstance(value, _Biases):
        return value
    pairs = tuple(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, Iterable) or isinstance(pairs, str):
        return value
    pairs = tuple(tuple(pair) if isinstance(pair, list | tuple) else pair for pair in pairs)
    valid = all(map(_is_bias, pairs)) and len({token for token, _ in pairs}) == len(pairs)
    return _Biases(sorted(pairs)) if valid else pairs


def _is_bias(pair: object) -> bool:
    return (
        isinstance(pair, tuple)
        and len(pair) == 2
        and isinstance(pair[0], int)
        and not isinstance(pair[0], bool)
        and 0 <= pair[0] < 2**31
        and isinstance(pair[1], int | float)
        and not isinstance(pair[1], bool)
        and (-1e6 <= pair[1] <= 1e6 or pair[1] == float("-inf"))  # NaN fails; -inf forbids the token
    )


@attrs.frozen(kw_only=True)
class SamplingSettings:
    """How the target chooses. Defaults are greedy.

    Order: logit bias, penalties, DRY, top-k, typical, top-p, min-p, XTC, temperature, draw. A grammar judges the drawn
    token; a refused one is drawn once more, among the tokens that the grammar allows.
    Off are ``top_k`` 0, ``top_p`` 1, ``min_p`` 0, ``typical_p`` 1, penalties 1 / 0 / 0, ``dry_multiplier`` 0 and
    ``xtc_probability`` 0.

    Attributes:
        temperature: 0 takes the largest logit of what is left.
        repeat_last_n: Tokens that penalties look back on; -1 and larger values than the context mean the context.
        dry_multiplier: DRY lowers the logit of a token that would prolong a repetition, by this times ``dry_base`` to
            the power of the repetition's length beyond ``dry_allowed_length``.
        dry_penalty_last_n: Tokens that DRY looks back on, as ``repeat_last_n``.
        dry_sequence_breakers: Texts that no repetition reaches across.
        xtc_probability: How often XTC removes every token above ``xtc_threshold`` but the least probable of them; a
            threshold above 0.5 is off.
        logit_bias: Added to the logits of single tokens before everything else: a mapping or pairs; -inf forbids.
        grammar: GBNF text whose rule ``root`` the whole output matches; empty for none.
        grammar_file: A file with that text, instead of it.
        seed: Seed of the target's sampler.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = DRY_BREAKERS
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    logit_bias: tuple[tuple[TokenId, float], ...] = attrs.field(default=_Biases(), converter=_bias_pairs)
    grammar: str = ""
    grammar_file: Path | None = None
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        for field, (low, high) in _WHOLE.items():
            self._require(
                field, _in_range(getattr(self, field), low, high, int), f"a whole number from {low} to {high}"
            )
        for field, (least, most) in _NUMBERS.items():
            number = _in_range(getattr(self, field), least, most, int | float)
            self._require(field, number, f"a number from {least} to {most}")
        cold = self.temperature == 0 and not isinstance(self.temperature, bool)
        warm = _in_range(self.temperature, 1e-20, 1e6, int | float)
        self._require("temperature", cold or warm, "0 or a number from 1e-20 to 1000000.0")
        self._check_breakers()
        self._check_biases()
        self._check_grammar()

    def _require(self, field: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise out_of_range(field, getattr(self, field), allowed)

    def _check_breakers(self) -> None:
        breakers = self.dry_sequence_breakers
        self._require(
            "dry_sequence_breakers",
            isinstance(breakers, tuple) and len(breakers) <= _MOST_BREAKERS and all(map(_is_breaker, breakers)),
            f"at most {_MOST_BREAKERS} texts of 1 to {_MOST_BREAKER_BYTES} bytes",
        )

    def _check_biases(self) -> None:
        self._require(
            "logit_bias",
            isinstance(self.logit_bias, _Biases),
            "token ids, each once, with a number from -1000000.0 to 1000000.0 or -inf",
        )

    def _check_grammar(self) -> None:
        self._require(
            "grammar", _is_text(self.grammar, MOST_GRAMMAR_BYTES), f"at most {MOST_GRAMMAR_BYTES} bytes of text"
        )
        self._require("grammar_file", isinstance(self.grammar_file, Path | None), "a pathlib.Path")
        self._require("grammar_file", not (self.grammar and self.grammar_file), "no file beside the text of a grammar")

    @property
    def greedy(self) -> bool:
        """True when the choice is the largest logit and keeps no state: temperature 0 and nothing else in use."""
        return (
            self.temperature == 0.0
            and self.typical_p == 1.0
            and (self.repeat_penalty, self.frequency_penalty, self.presence_penalty) == (1.0, 0.0, 0.0)
            and self.dry_multiplier == 0.0
            and self.xtc_probability == 0.0
            and not self.logit_bias
            and not self.has_grammar
        )

    @property
    def has_grammar(self) -> bool:
        """True when the output follows a grammar."""
        return bool(self.grammar) or self.grammar_file is not None


def _in_range(value: Any, low: float, high: float, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high  # NaN fails


def _is_text(value: object, most_bytes: int) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return len(value.encode()) <= most_bytes
    except UnicodeEncodeError:
        return False


def _is_breaker(value: object) -> bool:
    return _is_text(value, _MOST_BREAKER_BYTES) and value != ""


@runtime_checkable
class Sampler(Protocol):
    """Draws the target's token at an evaluated row; its state moves once per drawn token and never otherwise."""

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Start a request: reset the random state and any grammar, and take in the prompt for penalties."""
        ...

    def sample(self, row: int) -> TokenId:
        """Draw at row ``row`` of the last evaluation and accept the drawn token into the state."""
        ...

    def snapshot(self) -> SamplerSnapshot:
        """Return a value that ``restore`` takes; None when there is no state."""
        ...

    def restore(self, snapshot: SamplerSnapshot) -> None:
        """Return to the snapshot exactly."""
        ...

    def close(self) -> None:
        """Free everything; safe to call twice."""
        ...
