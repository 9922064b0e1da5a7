"""What the benchmark asks of an engine: one greedy request at a time, token ids and times back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import attrs

from power_core.errors import PowerError
from power_core.tokens import TokenId

BATCH_TOKENS = 512
"""Prompt tokens evaluated at once, by every engine."""


class PeerError(PowerError):
    """A peer cannot be started, does not answer, or answers something that proves nothing."""

    code = "bench.peer"


@attrs.frozen(kw_only=True)
class Setup:
    """What every engine is opened with; the strategy has the engine's own name.

    Attributes:
        draft_max: K; None for the strategy's own, and for plain decoding.
        flash_attention: ``auto`` leaves it to the engine.
    """

    model: Path
    strategy: str
    draft: Path | None = None
    draft_max: int | None = None
    threads: int
    ctx_tokens: int
    flash_attention: Literal["auto", "off"] = "auto"


@attrs.frozen(kw_only=True)
class Answer:
    """One greedy continuation.

    Attributes:
        tokens: Emitted token ids; fewer than asked for when the model ended its text.
        decode_ns: From the first token to the last, by the engine's own clock.
        total_ns: From the call to the whole answer, by the caller's clock.
        drafted_tokens: Drafts put up for verification.
        accepted_tokens: Drafts that were right.
    """

    tokens: tuple[TokenId, ...]
    decode_ns: int
    total_ns: int
    drafted_tokens: int = 0
    accepted_tokens: int = 0


class Engine(Protocol):
    """One way to decode with one model. Used by one thread."""

    def start(self) -> dict[str, str]:
        """Load the model and return what answers: versions, build.

        Raises:
            PowerError: it cannot be started.
        """
        ...

    def generate(self, prompt: Sequence[TokenId], max_tokens: int) -> Answer:
        """Continue a prompt greedily; nothing of earlier requests is reused.

        Raises:
            PowerError: there is no usable answer.
        """
        ...

    def close(self) -> None:
        """End everything that ``start`` began, also after a failure; closing again does nothing."""
        ...
