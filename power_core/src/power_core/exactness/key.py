"""What the bits of a row depend on, as a key of the cache: files, library, settings. Cheap, and safe to be wrong about.

A model's identity is the digest of its header and of blocks spread evenly over its files, with their sizes: hashing all
of 250 MB would cost more than the measurement. Types and shapes decide which kernels run, and they stand in the header.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.artifacts.model_files import ModelFiles
from power_core.errors import ArtifactNotFoundError
from power_core.target import ContextSettings, ModelSettings, TargetContext

SAMPLED_BLOCKS = 64
BLOCK_BYTES = 4096


def probe_key(
    files: ModelFiles, build_key: str, model: ModelSettings, asked: ContextSettings, granted: TargetContext
) -> Mapping[str, Any] | None:
    """Return all that decides the bits of a row, as plain values; row counts and depths are not part of it.

    None when the backend does not tell which build it is.

    Raises:
        ArtifactNotFoundError: a file cannot be read.
    """
    if not build_key:
        return None
    values = {
        "model": model_digest(files),
        "library": build_key,
        "loaded": attrs.asdict(model, filter=_decides),
        "asked": attrs.asdict(asked, filter=_decides),
        "ctx_tokens": granted.ctx_tokens,
        "ubatch_rows": granted.ubatch_rows,
        "snapshots": granted.snapshots,
    }
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain


def _decides(field: attrs.Attribute[Any], value: Any) -> bool:
    return field.name not in ("path", "use_mmap", "use_mlock", "batch_rows", "output_rows")


def model_digest(files: ModelFiles) -> str:
    """Return the digest of a model's header and of blocks of its files; another name or date changes nothing."""
    digest = hashlib.sha256()
    for stamp in files.stamps:
        head_bytes = files.header.data_offset_bytes if stamp.path == files.path else BLOCK_BYTES
        digest.update(stamp.size_bytes.to_bytes(8, "little"))
        _update(digest, stamp.path, head_bytes, stamp.size_bytes)
    return digest.hexdigest()


def _update(digest: Any, path: Path, head_bytes: int, size_bytes: int) -> None:
    try:
        with path.open("rb") as file:
            digest.update(file.read(head_bytes))
            for block in range(SAMPLED_BLOCKS):
                file.seek(head_bytes + (size_bytes - head_bytes) * block // SAMPLED_BLOCKS)
                digest.update(file.read(BLOCK_BYTES))
    except OSError as error:
        raise ArtifactNotFoundError(
            f"{path} cannot be read: {error.strerror}", path=str(path), hint="check the path and its permissions"
        ) from error
