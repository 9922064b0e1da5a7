"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from pathlib import Path

from power_contract.files import written
from power_contract.subject import ArtifactCase, ContractSubject, KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.tiny_weights import TargetKind
from power_dflash2.config import DISTRIBUTION, STRATEGY

LAYERS, KEY_HEADS = "dflash.target_layers", "dflash.attention.head_count_kv"
GROUPS = "dflash.conv_group_size"
LAYOUT_KEYS = (
    "dflash.block_size",
    LAYERS,
    "dflash.conv_kernel_size",
    GROUPS,
    "dflash.selector_rank",
    "dflash.selector_top_k",
    KEY_HEADS,
    "tokenizer.ggml.mask_token_id",
)
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


def build_draft(folder: Path, target_kind: TargetKind) -> Path:
    """Write a draft for a tiny target."""
    return build_tiny_draft(folder / f"dflash2-{target_kind}.gguf", kind="dflash2", target=target_kind)


def artifact_cases() -> tuple[ArtifactCase, ...]:
    """Return files with one fault each."""
    draft = minimal_draft("dflash2")
    faults = (
        ("block-of-one-row", "block.block_size", draft.with_key("dflash.block_size", ValueType.UINT32, 1)),
        ("layers-out-of-order", "block.target_layers_unsorted", draft.with_key(LAYERS, ValueType.UINT32, (2, 0))),
        ("no-layers", "block.target_layers_missing", draft.without_key(LAYERS)),
        ("heads-that-do-not-divide", "block.head_groups", draft.with_key(KEY_HEADS, ValueType.UINT32, 3)),
        ("no-feature-matrix", "block.tensor", draft.without_tensor("fc.weight")),
        ("groups-that-do-not-divide", "block.conv_groups", draft.with_key(GROUPS, ValueType.UINT32, 5)),
        ("no-convolution", "block.tensor", draft.without_tensor("blk.1.ffn_conv_proj.weight")),
    )
    return tuple(
        ArtifactCase(name=name, build=written(content.build), check_id=check_id) for name, check_id, content in faults
    )


SUBJECT = ContractSubject(
    name=DISTRIBUTION,
    strategy=STRATEGY,
    plugin="power_dflash2.plugin",
    features=frozenset(
        {"model-backed", "draft-file", "taps", "confidence", "mutable-memory", "native", "known-drafts"}
    ),
    target_kinds=("hybrid", "attention", "sliding-window"),
    build_draft=build_draft,
    artifact_cases=artifact_cases,
    layout_keys=LAYOUT_KEYS,
    known_drafts=KNOWN_DRAFTS.__getitem__,
)
