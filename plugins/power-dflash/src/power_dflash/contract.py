"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from power_contract.block_subject import block_subject
from power_contract.subject import KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.tiny_weights import TargetKind
from power_dflash.config import DISTRIBUTION

DRAFT = minimal_draft("dflash")
# Worked out with the NumPy reference of the draft graphs, independently of the plugin and of the library.
KNOWN_DRAFTS: dict[TargetKind, tuple[KnownDraft, ...]] = {
    "hybrid": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(54, 30, 467, 30)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(57, 57, 54, 54)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(41, 304, 41, 41)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(304, 304, 41, 41)),
    ),
    "attention": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(346, 171, 30, 26)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(346, 270, 228, 240)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(214, 9, 345, 41)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(179, 288, 288, 41)),
    ),
    "sliding-window": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(370, 130, 130, 273)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=380, tokens=(130, 130, 130, 137)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(80, 283, 80, 227)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(80, 80, 80, 267)),
    ),
}

SUBJECT = block_subject(
    name=DISTRIBUTION,
    plugin="power_dflash.plugin",
    kind="dflash",
    own_layout_keys=(),
    own_faults=(
        ("block-of-one-row", "block.block_size", DRAFT.with_key("dflash.block_size", ValueType.UINT32, 1)),
        ("another-kind", "block.kind", DRAFT.with_tensor("markov_w1.weight", (4, 4))),
    ),
    known_drafts=KNOWN_DRAFTS,
)
