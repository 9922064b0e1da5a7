"""What a session asked of its drafter, round by round: the independent account that reports are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal
from power_core.tokens import CommittedRows, SeqId, TokenId


@attrs.define(kw_only=True)
class TracedRound:
    """One committed round.

    Attributes:
        request: What the drafter was asked for; None when it was not asked.
        proposed: What it answered.
        kept_rows: Rows that were committed: the anchor, and the accepted drafts that were evaluated.
        accepted: What it was told; None when it was told nothing.
    """

    request: DraftRequest | None = None
    proposed: tuple[TokenId, ...] = ()
    kept_rows: int = 0
    accepted: int | None = None


class TracingDrafter:
    """Passes every call on and keeps what was asked and answered since the last ``begin`` (``Drafter``).

    Attributes:
        prompt_tokens: Length of the prompt.
        rounds: Committed rounds, in order.
        closed: Number of ``close`` calls.
        on_propose: Called before every proposal.
    """

    def __init__(self, inner: Drafter, on_propose: Callable[[], object] = lambda: None) -> None:
        self.inner = inner
        self.on_propose = on_propose
        self.prompt_tokens = 0
        self.rounds: list[TracedRound] = []
        self.closed = 0
        self._open = TracedRound()

    @property
    def compute_ns(self) -> int:
        """As the inner drafter says."""
        return int(getattr(self.inner, "compute_ns", 0))

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        """Start a new account."""
        self.prompt_tokens, self.rounds, self._open = len(prompt), [], TracedRound()
        self.inner.begin(prompt, seq_id=seq_id)

    def process(self, rows: CommittedRows) -> None:
        """Close a round, unless the rows are the prompt's."""
        self.inner.process(rows)
        if rows.start_pos >= self.prompt_tokens:
            self._open.kept_rows = len(rows.tokens)
            self.rounds.append(self._open)
            self._open = TracedRound()

    def propose(self, request: DraftRequest) -> Proposal:
        """Note question and answer."""
        self.on_propose()
        proposal = self.inner.propose(request)
        self._open = TracedRound(request=request, proposed=tuple(proposal.tokens))
        return proposal

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Note the outcome of the round that was just closed."""
        self.rounds[-1].accepted = accepted_tokens
        self.inner.accept(accepted_tokens, seq_id=seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> DrafterCheckpoint:
        return self.inner.checkpoint(seq_id=seq_id)

    def restore(self, checkpoint: DrafterCheckpoint, *, seq_id: SeqId = 0) -> None:
        self._open = TracedRound()
        self.inner.restore(checkpoint, seq_id=seq_id)

    def close(self) -> None:
        self.closed += 1
        self.inner.close()


class Traced:
    """Hands out tracing drafters: ``open_subject_session(..., on_drafter=traced)``, then read ``traced.drafter``."""

    def __init__(self, on_propose: Callable[[], object] = lambda: None) -> None:
        self._on_propose = on_propose
        self._drafter: TracingDrafter | None = None

    def __call__(self, inner: Drafter) -> Drafter:
        self._drafter = TracingDrafter(inner, self._on_propose)
        return self._drafter

    @property
    def drafter(self) -> TracingDrafter:
        """The drafter of the session that was opened last."""
        assert self._drafter is not None
        return self._drafter

    @property
    def rounds(self) -> list[TracedRound]:
        """Its committed rounds."""
        return self.drafter.rounds


def outcome(result: Any) -> dict[str, Any]:
    """Return what two runs of one request are compared by: the output, and how the drafting went."""
    report = result.report
    return {
        "tokens": result.tokens,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "rounds": report.rounds,
        "drafted": report.drafted_tokens,
        "accepted": report.accepted_tokens,
        "prefixes": report.accepted_prefix_histogram,
        "limits": report.draft_limit_histogram,
    }
