"""Which tokens the heads can propose: all, the first ids, or those that a file ranks first."""

from __future__ import annotations

from typing import Any

import attrs

from power_core.artifacts import GgufHeader
from power_core.tokens import TokenId
from power_mtp.config import MtpConfig
from power_mtp.fr_map import FrMap, read_fr_map


@attrs.frozen(kw_only=True, eq=False)
class DraftHead:
    """The rows of the draft head, checked for a target.

    Attributes:
        rows: Tokens that can be proposed.
        vocabulary_tokens: Tokens of the target.
        fr_map: What ranks the tokens; None is the order of their ids.
    """

    rows: int
    vocabulary_tokens: int
    fr_map: FrMap | None = None

    @property
    def first_rows(self) -> int:
        """Rows of a head of the first ids; 0 for the whole head, and where tokens are named."""
        return 0 if self.fr_map is not None or self.rows == self.vocabulary_tokens else self.rows

    @property
    def tokens(self) -> list[TokenId] | None:
        """The tokens of a ranked head."""
        return None if self.fr_map is None else self.fr_map.token_ids[: self.rows].tolist()

    def facts(self, head_bytes: int) -> dict[str, Any]:
        """Return what a report says; nothing about a whole head. ``confidence`` names what probabilities are over."""
        if self.fr_map is None and self.first_rows == 0:
            return {}
        ranked = {} if self.fr_map is None else {"fr_d2t_sha256": self.fr_map.d2t_sha256}
        return {
            "fr_rows": self.rows,
            "fr_of_tokens": self.vocabulary_tokens,
            "fr_order": "ranked" if ranked else "token id",
            "fr_head_bytes": head_bytes,
            "confidence": f"over {self.rows} tokens",
            **ranked,
        }


def choose_head(config: MtpConfig, target: GgufHeader) -> DraftHead:
    """Return the head that was asked for; more rows than there are become all.

    Raises:
        ArtifactError: the map cannot be read, is broken, or belongs to another target.
    """
    vocabulary = len(target.require("tokenizer.ggml.tokens"))
    fr_map = None if config.fr_map is None else read_fr_map(config.fr_map, target)
    there = vocabulary if fr_map is None else len(fr_map.token_ids)
    return DraftHead(rows=min(config.fr_vocab_size or there, there), vocabulary_tokens=vocabulary, fr_map=fr_map)
