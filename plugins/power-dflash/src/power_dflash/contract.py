"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from pathlib import Path

from power_contract.files import written
from power_contract.subject import ArtifactCase, ContractSubject, KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.tiny_weights import TargetKind
from power_dflash.config import DISTRIBUTION, STRATEGY

LAYERS, KEY_HEADS = "dflash.target_layers", "dflash.attention.head_count_kv"
LAYOUT_KEYS = (
    "dflash.block_size",
    LAYERS,
    KEY_HEADS,
    "tokenizer.ggml.mask_token_id",
)
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


def build_draft(folder: Path, target_kind: TargetKind) -> Path:
    """Write a draft for a tiny target."""
    return build_tiny_draft(folder / f"dflash-{target_kind}.gguf", kind="dflash", target=target_kind)


def artifact_cases() -> tuple[ArtifactCase, ...]:
    """Return files with one fault each."""
    draft = minimal_draft("dflash")
    faults = (
        ("block-of-one-row", "block.block_size", draft.with_key("dflash.block_size", ValueType.UINT32, 1)),
        ("layers-out-of-order", "block.target_layers_unsorted", draft.with_key(LAYERS, ValueType.UINT32, (2, 0))),
        ("no-layers", "block.target_layers_missing", draft.without_key(LAYERS)),
        ("heads-that-do-not-divide", "block.head_groups", draft.with_key(KEY_HEADS, ValueType.UINT32, 3)),
        ("no-feature-matrix", "block.tensor", draft.without_tensor("fc.weight")),
        ("another-kind", "block.kind", draft.with_tensor("markov_w1.weight", (4, 4))),
    )
    return tuple(
        ArtifactCase(name=name, build=written(content.build), check_id=check_id) for name, check_id, content in faults
    )


SUBJECT = ContractSubject(
    name=DISTRIBUTION,
    strategy=STRATEGY,
    plugin="power_dflash.plugin",
    features=frozenset(
        {"model-backed", "draft-file", "taps", "confidence", "mutable-memory", "native", "known-drafts"}
    ),
    target_kinds=("hybrid", "attention", "sliding-window"),
    build_draft=build_draft,
    artifact_cases=artifact_cases,
    layout_keys=LAYOUT_KEYS,
    known_drafts=KNOWN_DRAFTS.__getitem__,
)
