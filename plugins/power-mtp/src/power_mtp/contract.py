"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from power_contract.files import header_cases
from power_contract.subject import ArtifactCase, ContractSubject
from power_core.artifacts import ValueType
from power_core.testing.headers import GgufBytes
from power_mtp.config import STRATEGY

HEADS, BLOCKS = "qwen35.nextn_predict_layers", "qwen35.block_count"


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
    features=frozenset({"model-backed", "nextn-taps", "confidence", "mutable-memory", "native"}),
    target_kinds=("hybrid",),
    artifact_cases=artifact_cases,
)
