"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from power_contract.block_subject import block_subject
from power_contract.subject import KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.tiny_weights import TargetKind
from power_dspark.config import DISTRIBUTION

HAS_CONFIDENCE = "dflash.has_confidence_head"
DRAFT = minimal_draft("dspark")
# Worked out with the NumPy reference of the draft graphs, independently of the plugin and of the library.
KNOWN_DRAFTS: dict[TargetKind, tuple[KnownDraft, ...]] = {
    "hybrid": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(19, 470, 156, 313)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(469, 471, 270, 270)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(324, 84, 401, 139)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(266, 11, 401, 139)),
    ),
    "attention": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(19, 338, 222, 266)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(382, 57, 94, 201)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(399, 449, 206, 452)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(53, 205, 85, 270)),
    ),
    "sliding-window": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(20, 5, 5, 5)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(140, 95, 84, 413)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(140, 166, 396, 396)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(380, 130, 288, 93)),
    ),
}

SUBJECT = block_subject(
    name=DISTRIBUTION,
    plugin="power_dspark.plugin",
    kind="dspark",
    own_layout_keys=("dflash.sample_from_anchor", HAS_CONFIDENCE),
    own_faults=(
        ("block-of-no-row", "block.block_size", DRAFT.with_key("dflash.block_size", ValueType.UINT32, 0)),
        ("anchor-unsaid", "block.sample_from_anchor", DRAFT.without_key("dflash.sample_from_anchor")),
        ("undeclared-confidence-head", "block.confidence_head", DRAFT.with_key(HAS_CONFIDENCE, ValueType.BOOL, False)),
        ("no-markov-head", "block.tensor", DRAFT.without_tensor("markov_w1.weight")),
    ),
    known_drafts=KNOWN_DRAFTS,
)
