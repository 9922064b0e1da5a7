"""Builds cases of broken drafts: header-only files (``power_core.testing.draft_headers``); no model is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from artifact_cases import ArtifactCase

from power_core.artifacts.drafts import check_draft
from power_core.artifacts.gguf import GgufHeader, ValueType, scan_header
from power_core.artifacts.validation import DraftValidator
from power_core.testing.draft_headers import DraftHeader, minimal_draft
from power_core.testing.draft_weights import DraftKind
from power_core.testing.headers import GgufBytes, minimal_target
from power_dflash.artifact import VALIDATOR as DFLASH
from power_dflash2.artifact import VALIDATOR as DFLASH2
from power_dspark.artifact import VALIDATOR as DSPARK

VALIDATORS: dict[str, DraftValidator] = {validator.kind: validator for validator in (DFLASH, DFLASH2, DSPARK)}
CONTRACT, PAIRING = "artifact.contract", "artifact.pairing"
U16, U32, I32, I64 = ValueType.UINT16, ValueType.UINT32, ValueType.INT32, ValueType.INT64
F32, BOOL, STRING = ValueType.FLOAT32, ValueType.BOOL, ValueType.STRING

Change = Callable[[DraftHeader], DraftHeader]


def scan(folder: Path, name: str, content: bytes) -> GgufHeader:
    """Write a file and read its header."""
    path = folder / name
    path.write_bytes(content)
    return scan_header(path)


def target_bytes() -> GgufBytes:
    """The target of the drafts: layers 0 to 2."""
    return minimal_target().without("qwen3.block_count").with_value("qwen3.block_count", U32, 3)


def check(folder: Path, draft: bytes, target: GgufBytes | None = None) -> str:
    """Use a file as the draft of a target."""
    headers = scan(folder, "target.gguf", (target or target_bytes()).build()), scan(folder, "draft.gguf", draft)
    return check_draft(*headers, list(VALIDATORS.values()))


def broken(name: str, fault: str, check_id: str, change: Change, kind: DraftKind = "dflash") -> ArtifactCase:
    """A draft that its own validator refuses."""
    return ArtifactCase(
        name=name,
        fault=fault,
        attempt=lambda folder: check(folder, change(minimal_draft(kind)).build()),
        code=CONTRACT,
        check_id=f"block.{check_id}",
    )


def key(name: str, fault: str, check_id: str, value_type: ValueType, values: object) -> ArtifactCase:
    """A DFlash draft with one wrong value."""
    return broken(
        f"draft-{check_id}-{fault}".replace(" ", "-").replace(".", "-").replace("_", "-").lower(),
        f"`{name}`: {fault}",
        check_id,
        lambda draft: draft.with_key(name, value_type, values),  # type: ignore[arg-type]
    )
