"""The contract of a DFlash draft: what all block drafts share, and nothing else.

Source: ``power_core.artifacts.block_checks``; power_reference.md section 4.3.
"""

from __future__ import annotations

from power_core.artifacts.block_checks import PREFIX, check_block_draft, claims_kind
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.pairing import PAIR_PREFIX, check_block_pair
from power_core.artifacts.validation import CheckList, ValidationReport

KIND = "dflash"


class DflashValidator:
    """Validates DFlash drafts (``power_core.artifacts.DraftValidator``)."""

    kind = KIND
    describe = "a DFlash draft: a block of masked tokens, filled in at once from the target's hidden rows"

    def matches(self, header: GgufHeader) -> bool:
        """True for a draft of the family without marks of another kind."""
        return claims_kind(header, KIND)

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check keys, tensors and tokenizer. Never raises for what a file holds."""
        checks = CheckList(PREFIX)
        check_block_draft(header, KIND, checks)
        return checks.report(KIND, header.path)

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        """Check a valid draft against its target. Never raises for what the files hold."""
        checks = CheckList(PAIR_PREFIX)
        check_block_pair(target, draft, checks)
        return checks.report(KIND, draft.path)
