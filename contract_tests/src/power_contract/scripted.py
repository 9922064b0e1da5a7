"""Proposals of a chosen acceptance: the plugin's own ``propose`` runs first, then its tokens are replaced.

So the plugin's state is as dirty as in real use, and every acceptance length 0..K occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal
from power_core.tokens import CommittedRows, SeqId, TokenId

Truth: TypeAlias = Callable[[tuple[TokenId, ...], int], Sequence[TokenId]]
"""``truth(prompt, count)``: the first ``count`` tokens that plain decoding emits after ``prompt``, fewer at the end."""

Plan: TypeAlias = int | Sequence[TokenId] | None
"""What the next proposal shall be: right for so many tokens, exactly these tokens, or None for the plugin's own."""

Lengths: TypeAlias = Callable[[DraftRequest], Plan]


class AcceptanceScript:
    """Chooses drafts that are right for a given number of tokens and wrong from there on."""

    def __init__(self, truth: Truth, lengths: Lengths, n_vocab: int) -> None:
        self._truth = truth
        self._lengths = lengths
        self._n_vocab = n_vocab
        self._prompts: dict[SeqId, tuple[TokenId, ...]] = {}

    def begin(self, prompt: Sequence[TokenId], seq_id: SeqId) -> None:
        """Note the prompt of a sequence."""
        self._prompts[seq_id] = tuple(prompt)

    def drafts(self, request: DraftRequest) -> list[TokenId] | None:
        """Return what takes the place of the plugin's drafts; None to keep them."""
        right = self._lengths(request)
        if right is None:
            return None
        if not isinstance(right, int):
            return list(right)
        prompt = self._prompts[request.seq_id]
        at = request.n_past - len(prompt) + 1
        following = self._truth(prompt, at + request.limit_tokens)[at : at + request.limit_tokens]
        return [token if index < right else (token + 1) % self._n_vocab for index, token in enumerate(following)]


class ScriptedDrafter:
    """Runs the plugin's drafter and hands out the script's tokens in place of its own (``Drafter``).

    Attributes:
        own: What the plugin proposed, before it was replaced, in order.
    """

    def __init__(self, inner: Drafter, script: AcceptanceScript) -> None:
        self.inner = inner
        self.own: list[Proposal] = []
        self._script = script
        self._open_tokens: dict[SeqId, int] = {}

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        self._script.begin(prompt, seq_id)
        self._open_tokens[seq_id] = 0
        self.inner.begin(prompt, seq_id=seq_id)

    def process(self, rows: CommittedRows) -> None:
        self.inner.process(rows)

    def propose(self, request: DraftRequest) -> Proposal:
        """Let the plugin propose, then answer as the script says."""
        own = self.inner.propose(request)
        self.own.append(own)
        self._open_tokens[request.seq_id] = len(own.tokens)
        replacement = self._script.drafts(request)
        return own if replacement is None else Proposal(seq_id=request.seq_id, tokens=replacement)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Tell the plugin, as far as it proposed anything: it must not learn of more tokens than it gave."""
        proposed = self._open_tokens.get(seq_id, 0)
        if proposed:
            self.inner.accept(min(accepted_tokens, proposed), seq_id=seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> DrafterCheckpoint:
        return self.inner.checkpoint(seq_id=seq_id), self._open_tokens.get(seq_id, 0)

    def restore(self, checkpoint: DrafterCheckpoint, *, seq_id: SeqId = 0) -> None:
        inner, self._open_tokens[seq_id] = checkpoint
        self.inner.restore(inner, seq_id=seq_id)

    def close(self) -> None:
        self.inner.close()
