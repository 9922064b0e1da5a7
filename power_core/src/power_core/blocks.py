"""Geometry of one anchored block: which rows a block drafter evaluates, where they stand, and which of them predict.

::

    predicts at the anchor     row      0        1       2      ...  K-1
    (anchor-first)             token    anchor   mask    mask   ...  mask
                               position n        n+1     n+2    ...  n+K-1
                               draft    1        2       3      ...  K

    else (bonus anchor,        row      0        1       2      ...  K
    in-place denoising)        token    anchor   mask    mask   ...  mask
                               position n        n+1     n+2    ...  n+K
                               draft    -        1       2      ...  K

n = committed tokens, K = drafts. Draft i stands for the token at position n + i in both layouts.

Source: llama_cpp.md, "Draft side"; ``dflash.sample_from_anchor`` in the GGUF contracts of the same page.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class BlockGeometry:
    """Layout of the blocks of one drafter.

    Attributes:
        block_size_rows: Rows of a block in training, at least 1, or 2 when the anchor's row predicts nothing.
        predicts_at_anchor: The anchor's own row predicts the first draft.
    """

    block_size_rows: int
    predicts_at_anchor: bool

    @property
    def most_drafts(self) -> int:
        """Most drafts of one block."""
        return self.block_size_rows - self.first_draft_row

    @property
    def first_draft_row(self) -> int:
        """Row that predicts the first draft."""
        return 0 if self.predicts_at_anchor else 1

    def rows(self, drafts: int) -> int:
        """Rows to evaluate for ``drafts`` drafts."""
        return drafts + self.first_draft_row
