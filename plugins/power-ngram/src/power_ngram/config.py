"""Bounds of the lookups."""

import attrs

from power_core.errors import ConfigError


@attrs.frozen(kw_only=True)
class NgramConfig:
    """How a continuation is looked for.

    Attributes:
        min_ngram_tokens: Shortest suffix that may match, at least 1.
        max_ngram_tokens: Longest suffix that is tried, and the first; every token costs one entry a length.
        own_output_first: Search the output before the prompt.

    Raises:
        ConfigError: the lengths are not 1 <= min <= max.
    """

    min_ngram_tokens: int = 2
    max_ngram_tokens: int = 5
    own_output_first: bool = False

    def __attrs_post_init__(self) -> None:
        _require_lengths(self.min_ngram_tokens, self.max_ngram_tokens, "2 and 5")


@attrs.frozen(kw_only=True)
class NgramPoolConfig:
    """How a continuation is looked for in the pool.

    Attributes:
        min_ngram_tokens: Shortest suffix that may match, at least 1: the n of the hashed n-grams.
        max_ngram_tokens: Length from which a match counts as no longer than another.
        candidates: Most places that are compared, the latest first; at least 1.

    Raises:
        ConfigError: the lengths are not 1 <= min <= max, or there are no candidates.
    """

    min_ngram_tokens: int = 3
    max_ngram_tokens: int = 16
    candidates: int = 8

    def __attrs_post_init__(self) -> None:
        _require_lengths(self.min_ngram_tokens, self.max_ngram_tokens, "3 and 16")
        if self.candidates < 1:
            message = f"`candidates` is {self.candidates!r}, expected at least 1; 8 is usual"
            raise ConfigError(message, field="candidates", value=self.candidates, allowed="at least 1")


def _require_lengths(shortest: int, longest: int, usual: str) -> None:
    if not 1 <= shortest <= longest:
        lengths = (shortest, longest)
        message = f"the n-gram lengths (min, max) are {lengths!r}, expected 1 <= min <= max; {usual} are usual"
        raise ConfigError(message, field="min_ngram_tokens", value=lengths, allowed="1 <= min <= max")
