"""The life cycle of a drafter that runs a draft graph; the drafting itself is the graph's.

A plugin with a model behind it writes a ``DraftGraph`` and hands out ``GraphDrafter(graph)``; a graph that runs whole
rounds in one call says so by ``power_core.whole_rounds.OffersRounds``::

    begin      clear
    process    feed                     committed rows, each once and in order
    propose    draft                    the memory ends as it was
    accept     -                        accepted drafts arrive as committed rows, with the target's hidden rows
    checkpoint save
    restore    restore                  also after feed or draft stopped half-way
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from power_core.drafter import DraftRequest, Proposal
from power_core.errors import StateError
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_core.whole_rounds import WholeRounds, offered_rounds

GraphState: TypeAlias = Any
GraphCheckpoint: TypeAlias = tuple[GraphState, int]
"""Everything that moves in a round: the graph's state, and how many tokens are proposed and open."""
Drafts: TypeAlias = tuple[Sequence[TokenId], NDArray[np.float32] | None]


@runtime_checkable
class DraftGraph(Protocol):
    """Weights and memory of a drafter, several sequences. Called by one thread at a time, in a drafter's order."""

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the backend's compute so far."""
        ...

    def clear(self, seq_id: SeqId) -> None:
        """Start the sequence anew with an empty memory."""
        ...

    def length_tokens(self, seq_id: SeqId) -> int | None:
        """Rows fed to the sequence since its last ``clear``; None before the first."""
        ...

    def feed(self, rows: CommittedRows) -> None:
        """Take in at least one row; raises ``StateError`` unless they follow the last ones and bring what they must."""
        ...

    def draft(self, request: DraftRequest) -> Drafts:
        """Return at most ``request.limit_tokens`` drafts, and their probabilities float32[n] where it has them."""
        ...

    def save(self, seq_id: SeqId) -> GraphState:
        """Return a value that ``restore`` takes; cheap."""
        ...

    def restore(self, state: GraphState, seq_id: SeqId) -> None:
        """Return to a saved state exactly."""
        ...

    def close(self) -> None:
        """Free everything; safe to call twice."""
        ...


class GraphDrafter:
    """Implements ``Drafter`` with a draft graph. Owns the graph and closes it.

    Before ``begin`` of a sequence, and after ``close``, every call on it raises ``StateError``.
    """

    def __init__(self, graph: DraftGraph) -> None:
        self._graph = graph
        self._closed = False
        self._proposed_tokens: dict[SeqId, int] = {}

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the backend's compute so far."""
        return self._graph.compute_ns

    @property
    def facts(self) -> dict[str, Any]:
        """What the graph says of itself for the report, as plain values; nothing where it has no ``facts``."""
        return dict(getattr(self._graph, "facts", {}))

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        if self._closed:
            raise _misuse("begin", "closed", "the drafter is closed", "open a new one")
        self._proposed_tokens.pop(seq_id, None)
        self._graph.clear(seq_id)
        self._proposed_tokens[seq_id] = 0

    def process(self, rows: CommittedRows) -> None:
        self._begun("process", rows.seq_id)
        if rows.tokens:
            self._graph.feed(rows)

    def propose(self, request: DraftRequest) -> Proposal:
        fed_tokens = self._begun("propose", request.seq_id)
        if request.n_past != fed_tokens:
            raise _misuse(
                "propose",
                "out of step",
                f"the anchor stands at position {request.n_past!r}, the drafter was fed {fed_tokens} rows",
                "hand over every committed row before the next proposal",
            )
        self._proposed_tokens[request.seq_id] = 0
        tokens, probabilities = self._graph.draft(request)
        if not tokens or len(tokens) < request.min_tokens:
            return Proposal(seq_id=request.seq_id)
        self._proposed_tokens[request.seq_id] = len(tokens)
        return Proposal(seq_id=request.seq_id, tokens=tokens, confidence=probabilities)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Close the round. Nothing to learn: the accepted drafts arrive as committed rows."""
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

    def open_rounds(self, target: TargetContext) -> WholeRounds | None:
        """Return what runs whole rounds; None unless the graph does, and for a subclass, whose steps differ."""
        return offered_rounds(self._graph, target) if type(self) is GraphDrafter else None

    def checkpoint(self, *, seq_id: SeqId = 0) -> GraphCheckpoint:
        if seq_id not in self._proposed_tokens:
            self._begun("checkpoint", seq_id)
        return self._graph.save(seq_id), self._proposed_tokens[seq_id]

    def restore(self, checkpoint: GraphCheckpoint, *, seq_id: SeqId = 0) -> None:
        self._begun("restore", seq_id)
        state, proposed_tokens = checkpoint
        self._graph.restore(state, seq_id)
        self._proposed_tokens[seq_id] = proposed_tokens

    def close(self) -> None:
        self._closed = True
        self._proposed_tokens.clear()
        self._graph.close()

    def _begun(self, operation: str, seq_id: SeqId) -> int:
        fed_tokens = self._graph.length_tokens(seq_id)
        if fed_tokens is None or seq_id not in self._proposed_tokens:
            reason = "the drafter is closed" if self._closed else f"sequence {seq_id!r} was not begun"
            raise _misuse(operation, "closed" if self._closed else "empty", reason, "call `begin` first")
        return fed_tokens


def _misuse(operation: str, state: str, reason: str, hint: str) -> StateError:
    return StateError(f"`{operation}` cannot run: {reason}", state=state, operation=operation, hint=hint)
