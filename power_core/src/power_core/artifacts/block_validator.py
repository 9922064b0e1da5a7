"""The validator of any kind of block draft: what the family shares, and what a plugin adds for its kind."""

from __future__ import annotations

import attrs

from power_core.artifacts.block_checks import PREFIX, OwnState, check_block_draft, claims_kind
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.pairing import PAIR_PREFIX, check_block_pair
from power_core.artifacts.validation import CheckList, ValidationReport


@attrs.frozen(kw_only=True)
class BlockDraftValidator:
    """Validates the block drafts of one kind (``power_core.artifacts.DraftValidator``).

    Attributes:
        kind: Name of the strategy that reads them.
        describe: One sentence.
        own_keys: As for ``check_block_draft``.
        own_state: As for ``check_block_draft``.
    """

    kind: str
    describe: str
    own_keys: tuple[str, ...] = ()
    own_state: OwnState | None = None

    def matches(self, header: GgufHeader) -> bool:
        """True for a draft of the family with the marks of this kind."""
        return claims_kind(header, self.kind)

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check keys, tensors and tokenizer. Never raises for what a file holds."""
        checks = CheckList(PREFIX)
        check_block_draft(header, self.kind, checks, own_keys=self.own_keys, own_state=self.own_state)
        return checks.report(self.kind, header.path)

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        """Check a valid draft against its target. Never raises for what the files hold."""
        checks = CheckList(PAIR_PREFIX)
        check_block_pair(target, draft, checks)
        return checks.report(self.kind, draft.path)
