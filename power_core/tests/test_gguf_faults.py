"""The bounded header scan: its limits, truncation, unreadable files. Single faults are in hostile_files.py."""

from __future__ import annotations

import os
import random
from pathlib import Path

import attrs
import pytest
from gguf_scans import GOOD, refusal, write

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.errors import ArtifactFormatError, ArtifactNotFoundError
from power_core.testing.headers import GgufBytes
from power_core.testing.models import build_tiny_target


def test_versions_2_and_3_are_read(tmp_path: Path) -> None:
    for version in (2, 3):
        assert scan_header(write(tmp_path, GgufBytes(version=version))).version == version


def test_header_bytes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power_core.artifacts.byte_reader.MAX_HEADER_BYTES", 4096)
    monkeypatch.setattr("power_core.artifacts.byte_reader.CHUNK_BYTES", 1024)
    content = GgufBytes().with_array("k", ValueType.UINT8, [0] * 5000)
    assert refusal(tmp_path, content).check_id == "gguf.header_bytes"


def test_truncated_tensor_data_names_first_tensor_and_sizes(tmp_path: Path) -> None:
    content = GgufBytes().with_tensor("a", (64,)).with_tensor("b", (64,)).with_tensor("c", (64,))
    whole = len(content.build())
    error = refusal(tmp_path, attrs.evolve(content, missing_bytes=300))
    assert "inside tensor 'b'" in str(error)
    assert (error.expected, error.actual) == (whole, whole - 300)


def test_missing_padding_after_last_tensor_is_no_fault(tmp_path: Path) -> None:
    content = GgufBytes().with_tensor("a", (33,))
    header = scan_header(write(tmp_path, attrs.evolve(content, missing_bytes=28)))
    assert header.tensors["a"].size_bytes == 132


def test_every_truncation_of_a_model_is_refused(tmp_path: Path) -> None:
    whole = build_tiny_target(tmp_path / "whole.gguf", kind="hybrid", hidden=128, dtype="Q8_0").read_bytes()
    path = tmp_path / "cut.gguf"
    header_bytes = scan_header(tmp_path / "whole.gguf").data_offset_bytes
    draw = random.Random(0)
    cuts = [draw.randrange(header_bytes) for _ in range(100)] + [draw.randrange(len(whole) - 32) for _ in range(100)]
    path.write_bytes(whole)
    for cut in sorted(cuts, reverse=True):
        os.truncate(path, cut)
        with pytest.raises(ArtifactFormatError) as caught:
            scan_header(path)
        assert caught.value.check_id in ("gguf.truncated", "gguf.magic", "gguf.empty", "gguf.count")


@pytest.mark.parametrize(("path", "words"), [("/dev/null", "not a regular file"), ("a\0b", "not a usable path")])
def test_paths_that_no_file_can_have(path: str, words: str) -> None:
    with pytest.raises(ArtifactNotFoundError, match=words):
        scan_header(Path(path))


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, GOOD)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ArtifactNotFoundError, match="Permission denied"):
        scan_header(path)
