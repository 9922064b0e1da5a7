"""Proposes what followed the last tokens where they occurred before. Source: power_reference.md section 1.4."""

from collections.abc import Sequence

import attrs

from power_core.drafter import DraftRequest, Proposal
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_ngram.config import NgramConfig
from power_ngram.order import closed, not_begun, require_position


class NgramIndex:
    """Tokens, and for each n-gram that some token follows, where it ended last. A lookup costs one probe a length."""

    def __init__(self, config: NgramConfig) -> None:
        self.tokens: list[TokenId] = []
        self._lengths = range(config.min_ngram_tokens, config.max_ngram_tokens + 1)
        self._ends: dict[tuple[TokenId, ...], int] = {}
        self._undo: list[int] = []  # len(_lengths) entries a token: the ends that it replaced, 0 for none

    def append(self, token: TokenId) -> None:
        """Add a token; the n-grams that end before it now count. Undone by ``truncate``, also when interrupted."""
        end = len(self.tokens)
        for length in self._lengths:
            ngram = self._ngram(length, end)
            self._undo.append(self._ends.get(ngram, 0))
            self._ends[ngram] = end
        self.tokens.append(token)

    def truncate(self, length_tokens: int) -> None:
        """Forget all but the first ``length_tokens`` tokens, exactly."""
        while len(self._undo) > length_tokens * len(self._lengths):
            end, place = divmod(len(self._undo) - 1, len(self._lengths))
            self._ends[self._ngram(self._lengths[place], end)] = self._undo[-1]
            self._undo.pop()
        del self.tokens[length_tokens:]

    def continuation(self, suffix: Sequence[TokenId], limit_tokens: int) -> list[TokenId]:
        """Return what followed the most recent occurrence of the longest known end of ``suffix``; empty for none."""
        for length in reversed(self._lengths):
            if end := self._ends.get(tuple(suffix[-length:])):
                return self.tokens[end : end + limit_tokens]
        return []

    def _ngram(self, length: int, end: int) -> tuple[TokenId, ...]:
        return tuple(self.tokens[end - length : end]) if length <= end else ()


@attrs.frozen
class _Sequence:
    prompt_tokens: int
    prompt: NgramIndex
    output: NgramIndex


class NgramDrafter:
    """Implements ``Drafter``. A proposal has no confidence, so ``p_min`` never shortens it."""

    def __init__(self, config: NgramConfig) -> None:
        self._config = config
        self._sequences: dict[SeqId, _Sequence] = {}
        self._closed = False

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        if self._closed:
            raise closed("begin")
        self._sequences[seq_id] = _Sequence(len(prompt), NgramIndex(self._config), NgramIndex(self._config))

    def process(self, rows: CommittedRows) -> None:
        sequence = self._at("process", rows.seq_id, rows.start_pos)
        for position, token in enumerate(rows.tokens, rows.start_pos):
            (sequence.prompt if position < sequence.prompt_tokens else sequence.output).append(token)

    def propose(self, request: DraftRequest) -> Proposal:
        sequence = self._at("propose", request.seq_id, request.n_past)
        output, committed_tokens = sequence.output, len(sequence.output.tokens)
        try:
            output.append(request.anchor)
            suffix = output.tokens[-self._config.max_ngram_tokens :]
            drafts = output.continuation(suffix, request.limit_tokens) if self._config.own_output_first else []
            drafts = drafts or sequence.prompt.continuation(suffix, request.limit_tokens)
        finally:
            output.truncate(committed_tokens)
        return Proposal(seq_id=request.seq_id, tokens=drafts if len(drafts) >= request.min_tokens else ())

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Nothing to learn: what was accepted arrives as committed rows."""

    def checkpoint(self, *, seq_id: SeqId = 0) -> tuple[int, int]:
        sequence = self._at("checkpoint", seq_id)
        return len(sequence.prompt.tokens), len(sequence.output.tokens)

    def restore(self, checkpoint: tuple[int, int], *, seq_id: SeqId = 0) -> None:
        sequence = self._at("restore", seq_id)
        sequence.prompt.truncate(checkpoint[0])
        sequence.output.truncate(checkpoint[1])

    def close(self) -> None:
        self._closed = True
        self._sequences.clear()

    def _at(self, operation: str, seq_id: SeqId, position: int | None = None) -> _Sequence:
        sequence = self._sequences.get(seq_id)
        if sequence is None:
            raise not_begun(operation, seq_id)
        if position is not None:
            require_position(operation, seq_id, position, len(sequence.prompt.tokens) + len(sequence.output.tokens))
        return sequence
