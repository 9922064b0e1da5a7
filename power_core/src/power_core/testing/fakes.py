"""Deterministic fakes of a target, its memory and a drafter, with faults that can be scripted.

The fake target's next token is a pure function of the tokens in its memory, so any wrong memory shows in the output.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from power_core.cache_state import Checkpoint, IntegrityReport
from power_core.drafter import DraftRequest, Proposal
from power_core.errors import Cancelled, ContextFullError, NativeCallError, RollbackRefused, StateError
from power_core.sampler import Sampler, SamplingSettings
from power_core.target import ContextSettings, Kernels, ModelInfo
from power_core.tokens import CommittedRows, SeqId, SequenceRows, Taps, TokenId


def next_token(history: Sequence[TokenId], n_vocab: int) -> TokenId:
    """Return the fake target's greedy choice after ``history``."""
    return zlib.crc32(np.asarray(history, dtype=np.int32).tobytes()) % n_vocab


def plain_decode(prompt: Sequence[TokenId], n_tokens: int, n_vocab: int) -> list[TokenId]:
    """Return what plain greedy decoding emits: the oracle of every parity check on fakes."""
    history = list(prompt)
    for _ in range(n_tokens):
        history.append(next_token(history, n_vocab))
    return history[len(prompt) :]


class FakeVocabulary:
    """Tokens are bytes; ids from ``first_end`` on end generation."""

    def __init__(self, n_vocab: int, first_end: int) -> None:
        self.n_vocab = n_vocab
        self.first_end = first_end

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[TokenId]:
        """One token per byte, folded into the vocabulary."""
        return [byte % min(self.n_vocab, self.first_end) for byte in text.encode()]

    def token_bytes(self, token: TokenId, *, special: bool = False) -> bytes:
        """The byte itself; end tokens add nothing."""
        return b"" if self.is_end(token) else bytes([token % 256])

    def is_end(self, token: TokenId) -> bool:
        """True for ids from ``first_end`` on."""
        return token >= self.first_end


class GreedySampler:
    """Stateless greedy choice over a context's rows."""

    def __init__(self, context: FakeContext) -> None:
        self._context = context

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Nothing to remember."""

    def sample(self, row: int) -> TokenId:
        """The largest logit."""
        return self._context.argmax(row)

    def snapshot(self) -> None:
        """No state."""

    def restore(self, snapshot: object) -> None:
        """No state."""

    def close(self) -> None:
        """Nothing to free."""


class FakeContext:
    """A memory of tokens with the library's rules: a rollback window for recurrent state, staleness after an abort.

    ``before_evaluate`` is called before every evaluation and may raise to inject a fault; ``abort_after_rows`` makes an
    evaluation stop half-way with some rows written.
    """

    def __init__(self, settings: ContextSettings, *, n_vocab: int, n_embd: int, recurrent: bool) -> None:
        self.settings = settings
        self.n_vocab = n_vocab
        self.n_embd = n_embd
        self.recurrent = recurrent
        self.snapshots = settings.snapshots
        self.ctx_tokens = settings.ctx_tokens
        self.batch_rows = settings.batch_rows
        self.ubatch_rows = settings.ubatch_rows or settings.batch_rows
        self.compute_ns = 0
        self.evaluations: list[tuple[SequenceRows, ...]] = []
        self.before_evaluate: Callable[[FakeContext], None] | None = None
        self.abort_after_rows: int | None = None
        self.closed = False
        self._memory: dict[SeqId, list[TokenId]] = {}
        self._stale: set[SeqId] = set()
        self._window: dict[SeqId, int] = {}
        self._rows: list[tuple[SeqId, list[TokenId]]] = []
        self._abort = False

    def evaluate(self, sequences: Sequence[SequenceRows], *, kernels: Kernels) -> None:
        """Append rows to their sequences, as the protocol says."""
        if self.before_evaluate is not None:
            self.before_evaluate(self)
        if self._abort:
            raise Cancelled()
        self._check(sequences)
        self.evaluations.append(tuple(sequences))
        self._rows = []
        for rows in sequences:
            self._append(rows)

    def _check(self, sequences: Sequence[SequenceRows]) -> None:
        if not 1 <= sum(len(rows.tokens) for rows in sequences) <= self.batch_rows:
            raise NativeCallError("the number of rows is outside 1..batch_rows")
        for rows in sequences:
            if rows.seq_id in self._stale:
                raise StateError(f"sequence {rows.seq_id} is stale", code="state.stale")
            if rows.start_pos != self.length_tokens(rows.seq_id):
                raise NativeCallError(
                    f"rows start at {rows.start_pos}, the sequence ends at {self.length_tokens(rows.seq_id)}"
                )
            if rows.start_pos + len(rows.tokens) > self.ctx_tokens:
                raise ContextFullError("no free cell")

    def _append(self, rows: SequenceRows) -> None:
        memory = self._memory.setdefault(rows.seq_id, [])
        for index, token in enumerate(rows.tokens):
            if self.abort_after_rows is not None and index == self.abort_after_rows:
                self.abort_after_rows = None
                self._interrupt(rows)
            memory.append(token)
            self._rows.append((rows.seq_id, list(memory)))
        self._window[rows.seq_id] = min(self.snapshots, len(rows.tokens) - 1)

    def _interrupt(self, rows: SequenceRows) -> None:
        if self.recurrent:
            self._stale.add(rows.seq_id)
            self._memory[rows.seq_id].append(-1)
        else:
            del self._memory[rows.seq_id][rows.start_pos :]
        raise Cancelled()

    def logits(self, row: int) -> NDArray[np.float32]:
        """One-hot at the next token."""
        values = np.zeros(self.n_vocab, dtype=np.float32)
        values[self.argmax(row)] = 1.0
        return values

    def argmax(self, row: int) -> TokenId:
        """The next token after the row's history."""
        return next_token(self._rows[row][1], self.n_vocab)

    def read_taps(self, first_row: int, n_rows: int) -> Taps:
        """Rows that begin with sequence, position and token; a layer's rows end with the layer's id."""
        rows = [
            [seq_id, len(history) - 1, history[-1], *([0.0] * (self.n_embd - 3))]
            for seq_id, history in self._rows[first_row : first_row + n_rows]
        ]
        values = np.asarray(rows, dtype=np.float32).reshape(n_rows, self.n_embd)
        wanted = self.settings.taps
        layers = np.repeat(values[:, None], len(wanted.layers), axis=1)
        layers[:, :, -1] = wanted.layers
        return Taps(nextn=values if wanted.nextn else None, layers=layers if wanted.layers else None)

    def open_sampler(self, settings: SamplingSettings) -> Sampler:
        """Greedy only."""
        return GreedySampler(self)

    def tokens(self, seq_id: SeqId = 0) -> list[TokenId]:
        """What the memory really holds."""
        return list(self._memory.get(seq_id, []))

    def length_tokens(self, seq_id: SeqId = 0) -> int:
        """Positions held."""
        return len(self._memory.get(seq_id, []))

    def is_stale(self, seq_id: SeqId = 0) -> bool:
        """True after an abort inside recurrent state."""
        return seq_id in self._stale

    def can_truncate(self, length_tokens: int, seq_id: SeqId = 0) -> bool:
        """The library's rule for recurrent state; anything for attention."""
        dropped = self.length_tokens(seq_id) - length_tokens
        if seq_id in self._stale or dropped < 0:
            return length_tokens == 0
        return dropped == 0 or length_tokens == 0 or not self.recurrent or dropped <= self._window.get(seq_id, 0)

    def truncate(self, length_tokens: int, seq_id: SeqId = 0) -> None:
        """Drop the tail or refuse."""
        if not self.can_truncate(length_tokens, seq_id):
            raise RollbackRefused(f"cannot go back to {length_tokens}")
        if length_tokens < self.length_tokens(seq_id):
            del self._memory[seq_id][length_tokens:]
            self._window[seq_id] = 0

    def checkpoint(self, seq_id: SeqId = 0) -> Checkpoint:
        """Copy the whole memory."""
        data = np.asarray(self.tokens(seq_id), dtype=np.int32).tobytes()
        return Checkpoint(seq_id=seq_id, length_tokens=self.length_tokens(seq_id), data=data)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Put the copy back."""
        self._memory[checkpoint.seq_id] = np.frombuffer(checkpoint.data, dtype=np.int32).tolist()
        self._stale.discard(checkpoint.seq_id)
        self._window[checkpoint.seq_id] = 0

    def clear(self, seq_id: SeqId = 0) -> None:
        """Forget the sequence."""
        self._memory[seq_id] = []
        self._stale.discard(seq_id)
        self._window[seq_id] = 0

    def check_integrity(self, seq_id: SeqId = 0) -> IntegrityReport:
        """Count the memory."""
        length = self.length_tokens(seq_id)
        return IntegrityReport(seq_id=seq_id, length_tokens=length, expected_tokens=length, stale=self.is_stale(seq_id))

    def abort(self) -> None:
        """Refuse evaluations until ``clear_abort``."""
        self._abort = True

    def clear_abort(self) -> None:
        """Allow evaluations again."""
        self._abort = False

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


class FakeModel:
    """A target model without weights."""

    def __init__(
        self, *, n_vocab: int = 97, n_embd: int = 4, recurrent: bool = False, first_end: int | None = None
    ) -> None:
        self.vocabulary = FakeVocabulary(n_vocab, n_vocab if first_end is None else first_end)
        self.info = ModelInfo(
            architecture="fake",
            description="fake target",
            n_vocab=n_vocab,
            n_embd=n_embd,
            n_layer=1,
            n_layer_nextn=0,
            n_ctx_train_tokens=4096,
            n_swa_tokens=0,
            recurrent=recurrent,
            size_bytes=0,
            bos=None,
            eos=None,
            add_bos=False,
            chat_template=None,
        )
        self.closed = False

    def open_context(self, settings: ContextSettings) -> FakeContext:
        """Open a memory."""
        return FakeContext(settings, n_vocab=self.info.n_vocab, n_embd=self.info.n_embd, recurrent=self.info.recurrent)

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


class ScriptedDrafter:
    """Proposes what ``script(history, limit)`` returns, and records what it was fed.

    ``history`` is every token it was fed plus the anchor; ``seen`` is what a correct loop must have fed it.
    """

    def __init__(self, script: Callable[[list[TokenId], int], Sequence[TokenId]]) -> None:
        self.script = script
        self.seen: list[TokenId] = []
        self.taps: list[Taps | None] = []
        self.accepted: list[int] = []
        self.closed = False

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        """Forget everything."""
        self.seen, self.taps = [], []

    def process(self, rows: CommittedRows) -> None:
        """Take in rows, which must continue what was seen."""
        if rows.start_pos != len(self.seen):
            raise StateError(f"rows start at {rows.start_pos}, {len(self.seen)} were seen")
        self.seen.extend(rows.tokens)
        self.taps.append(rows.taps)

    def propose(self, request: DraftRequest) -> Proposal:
        """Run the script."""
        return Proposal(seq_id=request.seq_id, tokens=self.script([*self.seen, request.anchor], request.limit_tokens))

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Record the outcome."""
        self.accepted.append(accepted_tokens)

    def checkpoint(self, *, seq_id: SeqId = 0) -> tuple[int, int, int]:
        """Remember the lengths."""
        return len(self.seen), len(self.taps), len(self.accepted)

    def restore(self, checkpoint: tuple[int, int, int], *, seq_id: SeqId = 0) -> None:
        """Cut back to the lengths."""
        seen, taps, accepted = checkpoint
        del self.seen[seen:], self.taps[taps:], self.accepted[accepted:]

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True
