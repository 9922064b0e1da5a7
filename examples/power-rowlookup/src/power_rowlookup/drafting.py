"""The drafting: what each sequence has seen, and a search in it."""

from __future__ import annotations

import attrs

from power_core.drafter import DraftRequest
from power_core.errors import StateError
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_rowlookup.table import Table


@attrs.define
class Memory:
    """Committed tokens of a sequence, and the code of each one's hidden row."""

    tokens: list[TokenId] = attrs.field(factory=list)
    codes: list[int] = attrs.field(factory=list)


class RowLookup:
    """Implements ``power_core.graph_drafter.DraftGraph``; ``GraphDrafter`` adds the life cycle."""

    compute_ns = 0

    def __init__(self, table: Table) -> None:
        self._table = table
        self._memories: dict[SeqId, Memory] = {}

    def clear(self, seq_id: SeqId) -> None:
        self._memories[seq_id] = Memory()

    def length_tokens(self, seq_id: SeqId) -> int | None:
        memory = self._memories.get(seq_id)
        return None if memory is None else len(memory.tokens)

    def feed(self, rows: CommittedRows) -> None:
        """Take committed rows in; the codes are worked out first, so that a failure leaves nothing behind."""
        memory = self._memories[rows.seq_id]
        layers = None if rows.taps is None else rows.taps.layers
        if rows.start_pos != len(memory.tokens) or layers is None or len(layers) != len(rows.tokens):
            raise StateError(
                f"rows at position {rows.start_pos!r} of sequence {rows.seq_id!r}, expected {len(memory.tokens)}, each "
                "with a hidden row",
                operation="process",
                hint="hand over every committed row once, in order, with the layer that `needs` asked for",
            )
        codes = [self._table.code(row) for row in layers[:, 0]]
        memory.tokens.extend(rows.tokens)
        memory.codes.extend(codes)

    def draft(self, request: DraftRequest) -> tuple[list[TokenId], None]:
        """Return what followed the same code and the anchor here before, else what followed that code in the text."""
        memory = self._memories[request.seq_id]
        if not memory.codes:
            return [], None
        code, last = memory.codes[-1], len(memory.codes) - 1
        for at in range(last - 2, -1, -1):
            if memory.codes[at] == code and memory.tokens[at + 1] == request.anchor:
                return memory.tokens[at + 2 : at + 2 + request.limit_tokens], None
        return self._table.following(code)[: request.limit_tokens], None

    def save(self, seq_id: SeqId) -> int:
        return len(self._memories[seq_id].tokens)

    def restore(self, state: int, seq_id: SeqId) -> None:
        memory = self._memories[seq_id]
        del memory.tokens[state:], memory.codes[state:]

    def close(self) -> None:
        self._memories.clear()
