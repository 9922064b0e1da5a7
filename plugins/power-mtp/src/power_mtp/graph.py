"""The MTP heads as a draft graph: committed rows in, a chain of drafts out.

A head predicts the token at q + 1 from the token at q and the target's state row *before* it::

    position           0      1      2      3    | n_past
    token              x0     x1     x2     x3   | anchor
    state row fed      zeros  h0     h1     h2   | h3, the pending row: kept until the token that follows is known

One head drafts a chain by feeding its own choice and its own state row. Several heads take one step each, so a chain is
at most as long as there are heads. What a chain wrote is dropped again; only committed rows stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.artifacts import merge_shards
from power_core.drafter import DraftRequest
from power_core.errors import ArtifactPairingError, StateError
from power_core.plugins.types import DrafterContext
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_mtp.artifact import MtpValidator
from power_mtp.config import STRATEGY, MtpConfig
from power_mtp.draft_head import choose_head
from power_mtp.rounds import MtpRounds
from power_native import NativeContext, NextnChain, native_target

API_MAJOR = 1

StateRows = NDArray[np.float32]


@attrs.define(eq=False)
class HeadState:
    """What the heads know of one sequence: a value, never changed. Not frozen, since every round makes one.

    Attributes:
        length_tokens: Rows in the heads' memory.
        rows: float32[n, n_embd]: state rows of the target; nobody changes row ``row`` of them.
        row: The pending one: the target's state row of the last fed token; zeros before position 0.
    """

    length_tokens: int
    rows: StateRows
    row: int

    @property
    def pending(self) -> StateRows:
        """The pending row, float32[n_embd]."""
        pending: StateRows = self.rows[self.row]
        return pending

    def after(self, n_rows: int, rows: StateRows, row: int) -> HeadState:
        """Return the state ``n_rows`` rows later, with the pending row of then."""
        return HeadState(self.length_tokens + n_rows, rows, row)


class MtpGraph:
    """The heads of one target on one draft context, several sequences (``power_core.graph_drafter.DraftGraph``).

    Args:
        chain: Runs the heads; its context is this graph's alone.
        heads: Number of heads, at least 1.
        n_embd: Width of a state row.
        max_tokens: Most drafts of one chain.
        facts: What a report says about the heads.
    """

    def __init__(
        self,
        chain: NextnChain,
        *,
        heads: int,
        n_embd: int,
        max_tokens: int,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._chain = chain
        self._context: NativeContext = chain.context
        self._heads = heads
        self._n_embd = n_embd
        self.max_tokens = min(max_tokens, heads) if heads > 1 else max_tokens
        self._states: dict[SeqId, HeadState] = {}
        self.facts = dict(facts or {})

    def clear(self, seq_id: SeqId) -> None:
        """Forget the sequence: empty memory, zeros as the pending row."""
        self._states.pop(seq_id, None)
        self._context.clear(seq_id)
        self._states[seq_id] = HeadState(0, np.zeros((1, self._n_embd), np.float32), 0)

    def length_tokens(self, seq_id: SeqId) -> int | None:
        """Rows in the sequence's memory, None before the first ``clear``."""
        state = self._states.get(seq_id)
        return None if state is None else state.length_tokens

    def feed(self, rows: CommittedRows) -> None:
        """Feed committed rows to every head; the state moves only when all went well.

        Raises:
            StateError: the rows do not follow the last ones, or come without one state row each.
        """
        before, state_rows = self._states[rows.seq_id], self._checked_rows(rows)
        states = before.pending[np.newaxis]
        if len(rows.tokens) > 1:
            states = np.concatenate((states, state_rows[:-1]))
        most = self._context.batch_rows
        for at in range(0, len(rows.tokens), most):
            self._feed_heads(rows.tokens[at : at + most], rows.start_pos + at, states[at : at + most], rows.seq_id)
        self._states[rows.seq_id] = before.after(len(rows.tokens), state_rows, len(rows.tokens) - 1)

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the library's compute so far."""
        return self._context.compute_ns

    def draft(self, request: DraftRequest) -> tuple[list[TokenId], StateRows | None]:
        """Return drafts after ``request.anchor`` and, where ``p_min`` needs them, their probabilities, float32[n].

        The memory ends as it was.
        """
        return self._chain.draft(
            first_pos=request.n_past,
            token=request.anchor,
            state=self._states[request.seq_id].pending,
            max_tokens=min(request.limit_tokens, self.max_tokens),
            p_min=request.p_min,
            heads=self._heads,
            seq_id=request.seq_id,
            probabilities=request.p_min > 0.0,
        )

    def open_rounds(self, target: TargetContext) -> MtpRounds | None:
        """Return what runs whole rounds; several heads feed each row more than once and go step by step."""
        if type(self) is not MtpGraph or self._heads > 1 or not isinstance(target, NativeContext):
            return None
        return MtpRounds(target, self._context, max_tokens=self.max_tokens, states=self._states)

    def save(self, seq_id: SeqId) -> HeadState:
        """Return the sequence's state; holds no copy of the memory, which is only ever cut back."""
        return self._states[seq_id]

    def restore(self, state: HeadState, seq_id: SeqId) -> None:
        """Return to an earlier state exactly, also after a call that failed half-way."""
        self._context.truncate(state.length_tokens, seq_id)
        self._states[seq_id] = state

    def close(self) -> None:
        """Free the draft context; safe to call twice."""
        self._states.clear()
        self._context.close()

    def _feed_heads(self, tokens: Sequence[TokenId], start_pos: int, states: StateRows, seq_id: SeqId) -> None:
        # Each head keeps its own keys and values at the same positions: it writes the rows that the last head wrote.
        if self._heads == 1:
            self._chain.feed(tokens, start_pos, states, seq_id=seq_id)
            return
        for head in range(self._heads):
            self._context.truncate(start_pos, seq_id)
            self._context.set_nextn_head(head)
            self._chain.feed(tokens, start_pos, states, seq_id=seq_id)

    def _checked_rows(self, rows: CommittedRows) -> StateRows:
        length = self._states[rows.seq_id].length_tokens
        if rows.start_pos != length:
            raise StateError(
                f"rows of sequence {rows.seq_id!r} start at position {rows.start_pos!r}, expected {length}",
                operation="process",
                hint="hand over every committed row once, in order",
            )
        state_rows = rows.taps.nextn if rows.taps is not None else None
        shape, expected = None if state_rows is None else state_rows.shape, (len(rows.tokens), self._n_embd)
        if state_rows is None or shape != expected:
            raise StateError(
                f"the rows of sequence {rows.seq_id!r} come with state rows of shape {shape}, expected {expected}",
                operation="process",
                hint="open the target with `TapRequest(nextn=True)` and pass one state row a token",
            )
        return state_rows


def open_graph(context: DrafterContext) -> MtpGraph:
    """Check target and options, and open the heads' context beside the target's.

    Raises:
        PluginVersionError: the core speaks another major API version.
        UnsupportedStrategyError: another backend, or an option that the library cannot serve.
        ConfigError: an option is unknown or out of range.
        ArtifactError: the heads in the file break their contract, the library loaded something else, or the file that
            ranks the tokens is not for this target.
    """
    context.require_api(API_MAJOR, "power-mtp")
    header = merge_shards(context.target_header)
    config = MtpConfig.from_options(context.options)
    config.require_supported(header.architecture)
    MtpValidator().validate(header).raise_first()
    model, target = native_target(context, STRATEGY)
    heads = model.info.n_layer_nextn
    if heads != header.nextn_layers:
        raise ArtifactPairingError(
            f"the library loaded {heads} MTP heads, the file declares {header.nextn_layers}",
            path=str(header.path),
            expected=header.nextn_layers,
            actual=heads,
            hint="load the target with `load_nextn`, from the file that was checked",
        )
    head = choose_head(config, header)
    heads_context = model.open_nextn_context(
        target, threads=context.threads, head_rows=head.first_rows, head_tokens=head.tokens
    )
    return MtpGraph(
        NextnChain(heads_context, max_tokens=context.draft_max_tokens),
        heads=heads,
        n_embd=model.info.n_embd,
        max_tokens=context.draft_max_tokens,
        facts=head.facts(heads_context.head_bytes),
    )
