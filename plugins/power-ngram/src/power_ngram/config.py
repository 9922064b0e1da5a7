"""Bounds of the lookup."""

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
        if not 1 <= self.min_ngram_tokens <= self.max_ngram_tokens:
            lengths = (self.min_ngram_tokens, self.max_ngram_tokens)
            message = f"the n-gram lengths (min, max) are {lengths!r}, expected 1 <= min <= max; 2 and 5 are usual"
            raise ConfigError(message, field="min_ngram_tokens", value=lengths, allowed="1 <= min <= max")
