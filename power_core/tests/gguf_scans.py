"""Scans of header bytes that a test lays down, hostile ones within a limit of memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.errors import ArtifactFormatError
from power_core.testing.headers import GgufBytes, minimal_target

U32, I32, STRING, ARRAY = ValueType.UINT32, ValueType.INT32, ValueType.STRING, ValueType.ARRAY
GOOD = minimal_target()


def write(folder: Path, content: bytes | GgufBytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content if isinstance(content, bytes) else content.build())
    return path


def refusal(folder: Path, content: bytes | GgufBytes) -> ArtifactFormatError:
    """Scan hostile bytes within a memory limit and return the error."""
    path = write(folder, content)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactFormatError) as caught:
            scan_header(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 32 << 20
    assert str(path) in str(caught.value)
    assert caught.value.hint
    return caught.value
