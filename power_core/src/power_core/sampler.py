"""The sampler protocol: the target's own choice at a row, with state that can go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

from power_core.errors import ConfigError
from power_core.tokens import TokenId

SamplerSnapshot: TypeAlias = Any


@attrs.frozen(kw_only=True)
class SamplingSettings:
    """How the target chooses. Defaults are greedy. Order: penalties, top-k, typical, top-p, min-p, temperature, draw.

    ``top_k`` 0, ``top_p`` 1.0, ``min_p`` 0.0, ``typical_p`` 1.0 and penalties 1.0 / 0.0 / 0.0 are off.
    ``repeat_last_n`` -1 is the context's size; larger values than that are clamped to it.
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
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        ranges = {
            "temperature": (0.0, 1e6),
            "top_k": (0, 2**31 - 1),
            "top_p": (0.0, 1.0),
            "min_p": (0.0, 1.0),
            "typical_p": (0.0, 1.0),
            "repeat_penalty": (1e-6, 1e6),
            "frequency_penalty": (-1e6, 1e6),
            "presence_penalty": (-1e6, 1e6),
            "repeat_last_n": (-1, 2**31 - 1),
            "seed": (0, 2**32 - 2),  # the library reads 2**32 - 1 as "random"
        }
        whole = ("top_k", "repeat_last_n", "seed")
        for field, (low, high) in ranges.items():
            value = getattr(self, field)
            number = isinstance(value, int if field in whole else (int, float)) and not isinstance(value, bool)
            if not number or not low <= value <= high:  # NaN fails both comparisons
                kind = "a whole number" if field in whole else "a number"
                raise ConfigError(
                    f"`{field}` is {value!r}, expected {kind} from {low} to {high}",
                    field=field,
                    value=value,
                    allowed=f"{low}..{high}",
                )

    @property
    def greedy(self) -> bool:
        """True when the choice is the largest logit and keeps no state (temperature 0, no penalties)."""
        return (
            self.temperature == 0.0
            and self.repeat_penalty == 1.0
            and self.frequency_penalty == 0.0
            and self.presence_penalty == 0.0
        )


@runtime_checkable
class Sampler(Protocol):
    """Draws the target's token at an evaluated row; its state moves once per drawn token and never otherwise."""

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Start a request: reset the random state and take in the prompt for penalties."""
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
