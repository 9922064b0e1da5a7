"""All tokens of a sequence, hashed by the n-gram that each of them follows. docs: README.md, "The pool"."""

from collections.abc import Iterable

from power_core.tokens import TokenId
from power_ngram.config import NgramPoolConfig


class NgramPool:
    """Tokens, and for each n-gram the chain of the places where it ended, the latest first.

    A place is the number of tokens up to the end of the n-gram, so the token that follows it stands there. Adding a
    token is one look into the table, proposing is one and at most ``candidates`` comparisons, whatever the length.

    Memory: the tokens, one number a token, and one entry of the table for every different n-gram among them.

    Attributes:
        tokens: What was added, in order.
    """

    def __init__(self, config: NgramPoolConfig) -> None:
        self.tokens: list[TokenId] = []
        self._config = config
        self._latest: dict[tuple[TokenId, ...], int] = {}
        self._earlier: list[int] = []  # at place - 1, the place before it with the same n-gram; 0 for none

    def extend(self, tokens: Iterable[TokenId]) -> None:
        """Add tokens, and the n-grams that end with them. ``truncate`` undoes it, also half-way."""
        for token in tokens:
            self.tokens.append(token)
            place = len(self.tokens)
            ngram = self._ngram(place)
            self._earlier.append(self._latest.get(ngram, 0))
            if ngram:
                self._latest[ngram] = place

    def truncate(self, length_tokens: int) -> None:
        """Forget all but the first ``length_tokens`` tokens, exactly."""
        while len(self._earlier) > length_tokens:
            ngram = self._ngram(len(self._earlier))
            if self._earlier[-1]:
                self._latest[ngram] = self._earlier[-1]
            else:
                self._latest.pop(ngram, None)
            self._earlier.pop()
        del self.tokens[length_tokens:]

    def continuation(self, anchor: TokenId, limit_tokens: int) -> list[TokenId]:
        """Return what followed the longest known end of the tokens and ``anchor``; empty for none.

        Where the copy reaches the anchor it goes on with what was copied, so text that turns in circles gives
        ``limit_tokens`` drafts from its second turn on.
        """
        text = [*self.tokens[-self._config.max_ngram_tokens :], anchor]
        place = self._best_place(text)
        if not place:
            return []
        drafts = self.tokens[place : place + limit_tokens]
        if len(drafts) < limit_tokens:
            drafts.append(anchor)
        period = len(self.tokens) + 1 - place
        while len(drafts) < limit_tokens:
            drafts.append(drafts[-period])
        return drafts

    def _best_place(self, text: list[TokenId]) -> int:
        """Return the place with the longest match, the latest of equals, 0 for none."""
        config, best, longest = self._config, 0, 0
        place = self._latest.get(tuple(text[-config.min_ngram_tokens :]), 0)
        for _ in range(config.candidates):
            if not place:
                break
            matched = self._matched(text, place)
            if matched > longest:
                best, longest = place, matched
                if longest == config.max_ngram_tokens:
                    break
            place = self._earlier[place - 1]
        return best

    def _matched(self, text: list[TokenId], place: int) -> int:
        """Return how many tokens before ``place`` are the last ones of ``text``, from min to max n-gram length."""
        most = min(self._config.max_ngram_tokens, place, len(text))
        length = self._config.min_ngram_tokens
        while length < most and self.tokens[place - 1 - length] == text[-1 - length]:
            length += 1
        return length

    def _ngram(self, place: int) -> tuple[TokenId, ...]:
        length = self._config.min_ngram_tokens
        return tuple(self.tokens[place - length : place]) if place >= length else ()
