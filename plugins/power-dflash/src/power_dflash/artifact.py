"""The contract of a DFlash draft: what all block drafts share, and nothing else.

Source: ``power_core.artifacts.block_checks``; power_reference.md section 4.3.
"""

from __future__ import annotations

from power_core.artifacts import BlockDraftValidator
from power_dflash.config import STRATEGY

VALIDATOR = BlockDraftValidator(
    kind=STRATEGY,
    describe="a DFlash draft: a block of masked tokens, filled in at once from the target's hidden rows",
)
