"""Power itself: a session in this process, timed by whoever takes its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from peers.engines import BATCH_TOKENS, Answer, Setup
from power_core import RequestSettings, Session, SessionSettings, open_session
from power_core.bench.measures import measure
from power_core.tokens import TokenId


class PowerEngine:
    """A session.

    Args:
        setup: What to open.
        arithmetic: As ``--arithmetic``.
        scheduler: As ``--scheduler``.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        arithmetic: Literal["exact", "fast"] = "exact",
        scheduler: Literal["fixed", "goodput"] = "fixed",
    ) -> None:
        self._settings = SessionSettings(
            model=setup.model,
            spec=setup.strategy,
            draft=setup.draft,
            draft_max=setup.draft_max,
            arithmetic=arithmetic,
            scheduler=scheduler,
            threads=setup.threads,
            ctx=setup.ctx_tokens,
            flash_attention=setup.flash_attention,
            batch=BATCH_TOKENS,
        )
        self._session: Session | None = None

    def start(self) -> dict[str, str]:
        """Open the session."""
        self._session = open_session(self._settings)
        return {"guarantee": self._session.plan.guarantee}

    def generate(self, prompt: Sequence[TokenId], max_tokens: int) -> Answer:
        """Run one request as ``power bench`` does; ``decode_ns`` counts until the tokens are in Python."""
        assert self._session is not None, "start comes first"
        result, times, _ = measure(self._session, prompt, RequestSettings(max_tokens=max_tokens))
        return Answer(
            tokens=tuple(result.tokens),
            decode_ns=max(0, times.last_token_ns - times.first_token_ns),
            total_ns=times.total_ns,
            drafted_tokens=result.report.drafted_tokens,
            accepted_tokens=result.report.accepted_tokens,
        )

    def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            self._session.close()
            self._session = None
