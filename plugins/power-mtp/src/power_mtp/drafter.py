"""The life cycle of an MTP drafter; the drafting itself is the graph's."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from power_core.drafter import DraftRequest, Proposal
from power_core.errors import StateError
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_mtp.graph import HeadState, MtpGraph


@attrs.frozen(kw_only=True, eq=False)
class MtpCheckpoint:
    """Everything that moves in a round; holds no copy of the memory, which is only ever cut back."""

    heads: HeadState
    proposed_tokens: int


class MtpDrafter:
    """Implements ``Drafter`` with a target's own MTP heads. Owns the graph and closes it.

    Before ``begin`` of a sequence, and after ``close``, every call on it raises ``StateError``.
    """

    def __init__(self, graph: MtpGraph) -> None:
        self._graph = graph
        self._closed = False
        self._proposed_tokens: dict[SeqId, int] = {}

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the library's compute so far."""
        return self._graph.compute_ns

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        if self._closed:
            raise _misuse("begin", "closed", "the drafter is closed", "open a new one")
        self._graph.clear(seq_id)
        self._proposed_tokens[seq_id] = 0

    def process(self, rows: CommittedRows) -> None:
        self._begun("process", rows.seq_id)
        if rows.tokens:
            self._graph.feed(rows)

    def propose(self, request: DraftRequest) -> Proposal:
        state = self._begun("propose", request.seq_id)
        if request.n_past != state.length_tokens:
            raise _misuse(
                "propose",
                "out of step",
                f"the anchor stands at position {request.n_past!r}, the drafter was fed {state.length_tokens} rows",
                "hand over every committed row before the next proposal",
            )
        self._proposed_tokens[request.seq_id] = 0
        tokens, probabilities = self._graph.draft(request)
        if not tokens or len(tokens) < request.min_tokens:
            return Proposal(seq_id=request.seq_id)
        self._proposed_tokens[request.seq_id] = len(tokens)
        return Proposal(seq_id=request.seq_id, tokens=tokens, confidence=probabilities)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Close the round. Nothing to learn: the accepted drafts arrive as committed rows, with the target's states."""
        self._begun("accept", seq_id)
        proposed = self._proposed_tokens[seq_id]
        if proposed == 0 or not 0 <= accepted_tokens <= proposed:
            raise _misuse(
                "accept",
                "no proposal" if proposed == 0 else "proposed",
                f"{accepted_tokens!r} accepted tokens, but {proposed} are proposed and open",
                "call it once after a proposal with drafts, with 0 to that many",
            )
        self._proposed_tokens[seq_id] = 0

    def checkpoint(self, *, seq_id: SeqId = 0) -> MtpCheckpoint:
        state = self._begun("checkpoint", seq_id)
        return MtpCheckpoint(heads=state, proposed_tokens=self._proposed_tokens[seq_id])

    def restore(self, checkpoint: MtpCheckpoint, *, seq_id: SeqId = 0) -> None:
        self._begun("restore", seq_id)
        self._graph.restore(checkpoint.heads, seq_id)
        self._proposed_tokens[seq_id] = checkpoint.proposed_tokens

    def close(self) -> None:
        self._closed = True
        self._proposed_tokens.clear()
        self._graph.close()

    def _begun(self, operation: str, seq_id: SeqId) -> HeadState:
        state = self._graph.state(seq_id)
        if state is None or seq_id not in self._proposed_tokens:
            reason = "the drafter is closed" if self._closed else f"sequence {seq_id!r} was not begun"
            raise _misuse(operation, "closed" if self._closed else "empty", reason, "call `begin` first")
        return state


def _misuse(operation: str, state: str, reason: str, hint: str) -> StateError:
    return StateError(f"`{operation}` cannot run: {reason}", state=state, operation=operation, hint=hint)
