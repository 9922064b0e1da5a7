"""The drafter: the committed tokens of each sequence, and a search in them."""

from collections.abc import Sequence

from power_core.drafter import DraftRequest, Proposal
from power_core.errors import StateError
from power_core.tokens import CommittedRows, SeqId, TokenId


class EchoDrafter:
    """Implements ``power_core.drafter.Drafter``. A proposal has no confidence, so ``p_min`` never shortens it."""

    def __init__(self) -> None:
        self._tokens: dict[SeqId, list[TokenId]] = {}
        self._closed = False

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        if self._closed:
            raise StateError("the drafter is closed", operation="begin", hint="open a new one")
        self._tokens[seq_id] = []

    def process(self, rows: CommittedRows) -> None:
        self._memory("process", rows.seq_id, rows.start_pos).extend(rows.tokens)

    def propose(self, request: DraftRequest) -> Proposal:
        tokens = self._memory("propose", request.seq_id, request.n_past)
        drafts = echo(tokens, request.anchor)[: request.limit_tokens]
        return Proposal(seq_id=request.seq_id, tokens=drafts if len(drafts) >= request.min_tokens else ())

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        self._memory("accept", seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> int:
        return len(self._memory("checkpoint", seq_id))

    def restore(self, checkpoint: int, *, seq_id: SeqId = 0) -> None:
        del self._memory("restore", seq_id)[checkpoint:]

    def close(self) -> None:
        self._tokens.clear()
        self._closed = True

    def _memory(self, operation: str, seq_id: SeqId, position: int | None = None) -> list[TokenId]:
        tokens = self._tokens.get(seq_id)
        if tokens is None:
            raise StateError(f"sequence {seq_id!r} was not begun", operation=operation, hint="call `begin` first")
        if position not in (None, len(tokens)):
            raise StateError(f"`{operation}` at position {position!r}, expected {len(tokens)}", operation=operation)
        return tokens


def echo(tokens: Sequence[TokenId], anchor: TokenId) -> Sequence[TokenId]:
    """Return what followed ``anchor`` where it occurred last, nothing when it is new."""
    for at in range(len(tokens) - 2, -1, -1):
        if tokens[at] == anchor:
            return tokens[at + 1 :]
    return ()
