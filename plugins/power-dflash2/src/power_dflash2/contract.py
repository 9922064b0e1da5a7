"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from power_contract.block_subject import block_subject
from power_contract.subject import KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.tiny_weights import TargetKind
from power_dflash2.config import DISTRIBUTION

GROUPS = "dflash.conv_group_size"
DRAFT = minimal_draft("dflash2")
# Worked out with the NumPy reference of the draft graphs, independently of the plugin and of the library.
KNOWN_DRAFTS: dict[TargetKind, tuple[KnownDraft, ...]] = {
    "hybrid": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(184, 37, 451, 37)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(356, 314, 37, 402)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(242, 443, 110, 443)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(487, 132, 443, 132)),
    ),
    "attention": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(81, 443, 247, 312)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=380, tokens=(430, 66, 41, 487)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(335, 44, 66, 37)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(412, 27, 87, 46)),
    ),
    "sliding-window": (
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(89, 280, 263, 45)),
        KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(136, 80, 476, 45)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(114, 43, 494, 326)),
        KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=380, tokens=(372, 291, 291, 86)),
    ),
}

SUBJECT = block_subject(
    name=DISTRIBUTION,
    plugin="power_dflash2.plugin",
    kind="dflash2",
    own_layout_keys=("dflash.conv_kernel_size", GROUPS, "dflash.selector_rank", "dflash.selector_top_k"),
    own_faults=(
        ("block-of-one-row", "block.block_size", DRAFT.with_key("dflash.block_size", ValueType.UINT32, 1)),
        ("groups-that-do-not-divide", "block.conv_groups", DRAFT.with_key(GROUPS, ValueType.UINT32, 5)),
        ("no-convolution", "block.tensor", DRAFT.without_tensor("blk.1.ffn_conv_proj.weight")),
    ),
    known_drafts=KNOWN_DRAFTS,
)
