"""GGUF files before they are loaded: bounded header scan, identity, validation, roles.

Nothing here opens a model or trusts a file. ``scan_header`` is the only way to a ``GgufHeader``; validators and plugins
work on that value.
"""

from __future__ import annotations

from power_core.artifacts.block_layout import BlockLayout, read_block_layout
from power_core.artifacts.block_validator import BlockDraftValidator
from power_core.artifacts.drafts import check_draft
from power_core.artifacts.gguf import GgufHeader, StringArray, TensorInfo, ValueType, scan_header
from power_core.artifacts.identity import ArtifactIdentity, identify, tokenizer_fingerprint
from power_core.artifacts.roles import FileRole, describe_role
from power_core.artifacts.shards import ShardPosition, merge_shards, shard_position
from power_core.artifacts.target_checks import check_target
from power_core.artifacts.validation import (
    ArtifactValidator,
    Check,
    CheckList,
    DraftValidator,
    ValidationReport,
)

__all__ = [
    "ArtifactIdentity",
    "ArtifactValidator",
    "BlockDraftValidator",
    "BlockLayout",
    "Check",
    "CheckList",
    "DraftValidator",
    "FileRole",
    "GgufHeader",
    "ShardPosition",
    "StringArray",
    "TensorInfo",
    "ValidationReport",
    "ValueType",
    "check_draft",
    "check_target",
    "describe_role",
    "identify",
    "merge_shards",
    "read_block_layout",
    "scan_header",
    "shard_position",
    "tokenizer_fingerprint",
]
