"""The subject of a block drafter's plugin, from the few things in which the kinds differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from power_contract.files import Fault, header_cases
from power_contract.subject import ArtifactCase, ContractSubject, KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.draft_weights import DraftKind
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.tiny_weights import TargetKind

LAYERS, KEY_HEADS = "dflash.target_layers", "dflash.attention.head_count_kv"
SHARED_LAYOUT_KEYS = ("dflash.block_size", LAYERS, KEY_HEADS, "tokenizer.ggml.mask_token_id")


def block_subject(
    *,
    name: str,
    plugin: str,
    kind: DraftKind,
    own_layout_keys: tuple[str, ...],
    own_faults: Sequence[Fault],
    known_drafts: Mapping[TargetKind, tuple[KnownDraft, ...]],
) -> ContractSubject:
    """Return the subject of a plugin that reads one kind of block draft.

    Args:
        name: Its distribution.
        plugin: Its plugin module.
        kind: Of its drafts, and its strategy.
        own_layout_keys: Keys that decide how a file is read, besides those that all kinds have.
        own_faults: Broken files, besides those that no kind accepts.
        known_drafts: As in ``ContractSubject``.
    """

    def build_draft(folder: Path, target_kind: TargetKind) -> Path:
        return build_tiny_draft(folder / f"{kind}-{target_kind}.gguf", kind=kind, target=target_kind)

    def artifact_cases() -> tuple[ArtifactCase, ...]:
        return header_cases((*_shared_faults(kind), *own_faults))

    return ContractSubject(
        name=name,
        strategy=kind,
        plugin=plugin,
        features=frozenset(
            {"model-backed", "draft-file", "taps", "confidence", "mutable-memory", "native", "known-drafts"}
        ),
        target_kinds=("hybrid", "attention", "sliding-window"),
        build_draft=build_draft,
        artifact_cases=artifact_cases,
        layout_keys=(*SHARED_LAYOUT_KEYS, *own_layout_keys),
        known_drafts=known_drafts.__getitem__,
    )


def _shared_faults(kind: DraftKind) -> tuple[Fault, ...]:
    draft = minimal_draft(kind)
    return (
        ("layers-out-of-order", "block.target_layers_unsorted", draft.with_key(LAYERS, ValueType.UINT32, (2, 0))),
        ("no-layers", "block.target_layers_missing", draft.without_key(LAYERS)),
        ("heads-that-do-not-divide", "block.head_groups", draft.with_key(KEY_HEADS, ValueType.UINT32, 3)),
        ("no-feature-matrix", "block.tensor", draft.without_tensor("fc.weight")),
    )
