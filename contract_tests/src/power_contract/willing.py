"""A target that can be made to follow the plugin: its sampler draws the plugin's own drafts, as many as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from power_core.drafter import Proposal
from power_core.tokens import TokenId


class WillingSampler:
    """Draws the first ``willing_tokens`` of the plugin's own drafts, then something else (``Sampler``).

    Where there is no draft to follow it repeats the prompt, so that a drafter that looks things up drafts.

    Args:
        own: What the plugin proposed so far, oldest first.
        follows: Whether the target sees the plugin's own drafts in this round.
        n_vocab: Size of the vocabulary.

    Attributes:
        willing_tokens: How many drafts of a round it draws.
        tokens: Everything it drew since ``begin``; goes back with ``restore``.
    """

    def __init__(self, own: Sequence[Proposal], follows: Callable[[], bool], n_vocab: int) -> None:
        self.willing_tokens = 0
        self.tokens: list[TokenId] = []
        self._own = own
        self._follows = follows
        self._n_vocab = n_vocab
        self._prompt: tuple[TokenId, ...] = ()
        self._round_start = 0
        self._proposals = 0

    def begin(self, prompt: Sequence[TokenId]) -> None:
        self._prompt, self.tokens = tuple(prompt), []
        self._round_start, self._proposals = 0, len(self._own)

    def sample(self, row: int) -> TokenId:
        """Draw the next token, whatever stands at the row."""
        at = len(self.tokens) - self._round_start
        drafts = self._own[-1].tokens if len(self._own) > self._proposals and self._follows() else ()
        token = repeated(self._prompt, len(self.tokens))
        if at < min(len(drafts), self.willing_tokens):
            token = int(drafts[at])
        elif at < len(drafts) and token == drafts[at]:
            token = (token + 1) % self._n_vocab
        self.tokens.append(token)
        return token

    def snapshot(self) -> int:
        self._round_start, self._proposals = len(self.tokens), len(self._own)
        return len(self.tokens)

    def restore(self, snapshot: int) -> None:
        del self.tokens[snapshot:]

    def close(self) -> None:
        """Nothing to free."""


def repeated(prompt: Sequence[TokenId], index: int) -> TokenId:
    """Return the token that such a target emits at an index after the prompt when it follows nothing."""
    return prompt[index % len(prompt)]
