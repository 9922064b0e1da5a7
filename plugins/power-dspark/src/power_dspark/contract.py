"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from pathlib import Path

from power_contract.files import written
from power_contract.subject import ArtifactCase, ContractSubject, KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.tiny_weights import TargetKind
from power_dspark.config import DISTRIBUTION, STRATEGY

LAYERS, KEY_HEADS = "dflash.target_layers", "dflash.attention.head_count_kv"
LAYOUT_KEYS = (
    "dflash.block_size",
    LAYERS,
    "dflash.sample_from_anchor",
    "dflash.has_confidence_head",
    KEY_HEADS,
    "tokenizer.ggml.mask_token_id",
)
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


def build_draft(folder: Path, target_kind: TargetKind) -> Path:
    """Write a draft for a tiny target."""
    return build_tiny_draft(folder / f"dspark-{target_kind}.gguf", kind="dspark", target=target_kind)


def artifact_cases() -> tuple[ArtifactCase, ...]:
    """Return files with one fault each."""
    draft = minimal_draft("dspark")
    faults = (
        ("block-of-no-row", "block.block_size", draft.with_key("dflash.block_size", ValueType.UINT32, 0)),
        ("layers-out-of-order", "block.target_layers_unsorted", draft.with_key(LAYERS, ValueType.UINT32, (2, 0))),
        ("no-layers", "block.target_layers_missing", draft.without_key(LAYERS)),
        ("heads-that-do-not-divide", "block.head_groups", draft.with_key(KEY_HEADS, ValueType.UINT32, 3)),
        ("no-feature-matrix", "block.tensor", draft.without_tensor("fc.weight")),
        ("anchor-unsaid", "block.sample_from_anchor", draft.without_key("dflash.sample_from_anchor")),
        (
            "undeclared-confidence-head",
            "block.confidence_head",
            draft.with_key("dflash.has_confidence_head", ValueType.BOOL, False),
        ),
        ("no-markov-head", "block.tensor", draft.without_tensor("markov_w1.weight")),
    )
    return tuple(
        ArtifactCase(name=name, build=written(content.build), check_id=check_id) for name, check_id, content in faults
    )


SUBJECT = ContractSubject(
    name=DISTRIBUTION,
    strategy=STRATEGY,
    plugin="power_dspark.plugin",
    features=frozenset(
        {"model-backed", "draft-file", "taps", "confidence", "mutable-memory", "native", "known-drafts"}
    ),
    target_kinds=("hybrid", "attention", "sliding-window"),
    build_draft=build_draft,
    artifact_cases=artifact_cases,
    layout_keys=LAYOUT_KEYS,
    known_drafts=KNOWN_DRAFTS.__getitem__,
)
