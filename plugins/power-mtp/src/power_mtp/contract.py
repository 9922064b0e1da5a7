"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from power_contract.files import header_cases
from power_contract.subject import ArtifactCase, ContractSubject, KnownDraft
from power_core.artifacts import ValueType
from power_core.testing.headers import GgufBytes
from power_core.testing.tiny_weights import TargetKind
from power_mtp.config import STRATEGY

HEADS, BLOCKS = "qwen35.nextn_predict_layers", "qwen35.block_count"
# Worked out with a NumPy reference of the head, independently of the plugin and of the library.
KNOWN_DRAFTS = (
    KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=20, tokens=(346, 52, 57, 332)),
    KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=140, tokens=(387, 380, 353, 275)),
    KnownDraft(prompt=(5, 12, 19, 26, 33), anchor=380, tokens=(411, 383, 200, 193)),
    KnownDraft(prompt=(16, 23, 30, 37, 44), anchor=140, tokens=(18, 63, 130, 466)),
)


def known_drafts(target_kind: TargetKind) -> tuple[KnownDraft, ...]:
    """Return drafts on the hybrid target, the only one with a head."""
    return KNOWN_DRAFTS


def artifact_cases() -> tuple[ArtifactCase, ...]:
    """Return targets with one fault each in what they say of their heads."""
    target = GgufBytes().with_value("general.architecture", ValueType.STRING, "qwen35")
    declared = target.with_value(HEADS, ValueType.UINT32, 1)
    faults = (
        ("no-head", "mtp.nextn_predict_layers", target.with_value(BLOCKS, ValueType.UINT32, 5)),
        ("no-block-count", "mtp.block_count", declared),
        ("only-heads", "mtp.role", declared.with_value(BLOCKS, ValueType.UINT32, 1)),
        ("negative-heads", "mtp.nextn_predict_layers", target.with_value(HEADS, ValueType.INT32, -1)),
    )
    return header_cases(faults)


SUBJECT = ContractSubject(
    name="power-mtp",
    strategy=STRATEGY,
    plugin="power_mtp.plugin",
    features=frozenset({"model-backed", "nextn-taps", "confidence", "mutable-memory", "native", "known-drafts"}),
    target_kinds=("hybrid",),
    artifact_cases=artifact_cases,
    known_drafts=known_drafts,
)
