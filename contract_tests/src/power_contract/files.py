"""Small tools for files with one fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from power_core.artifacts import GgufHeader

BROKEN = "broken.gguf"


def written(content: Callable[[], bytes]) -> Callable[[Path], Path]:
    """Return a function that writes the content into a folder, as ``ArtifactCase.build`` wants it."""

    def build(folder: Path) -> Path:
        path = folder / BROKEN
        path.write_bytes(content())
        return path

    return build


def without_key(header: GgufHeader, key: str) -> GgufHeader:
    """Return the header as it is when the file lacks a key."""
    return attrs.evolve(
        header,
        metadata={name: value for name, value in header.metadata.items() if name != key},
        types={name: stored for name, stored in header.types.items() if name != key},
    )
