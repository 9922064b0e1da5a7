"""The bounded header scan: every limit, each with its verdict; hostile files cost neither time nor memory."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import attrs
import pytest
from gguf_scans import GOOD, STRING, U32, refusal, refused, write
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.errors import ArtifactFormatError, ArtifactNotFoundError
from power_core.testing.headers import GgufBytes, text
from power_core.testing.models import build_tiny_target

HUGE = 2**63


@pytest.mark.parametrize(
    ("content", "check_id", "words"),
    [
        (b"", "empty", "is empty"),
        (b"GG", "magic", "starts with b'GG'"),
        (b"# A text file\nwith lines\n", "magic", "starts with b'# A text file"),
        (b"PK\x03\x04" + bytes(60), "magic", "not a GGUF file"),
        (b"FUGG" + bytes(60), "big_endian", "big-endian"),
        (b"GGUF", "truncated", "inside the version"),
        (GgufBytes(version=0), "version", "unknown GGUF version 0"),
        (GgufBytes(version=1), "version_1", "no longer supported"),
        (GgufBytes(version=4), "version", "unknown GGUF version 4"),
        (GgufBytes(version=3 << 24), "big_endian", "big-endian"),
        (GgufBytes(version=2 << 24), "big_endian", "big-endian"),
        (GgufBytes(version=1 << 24), "big_endian", "big-endian"),
        (GgufBytes(version=7 << 24), "version", "unknown GGUF version 117440512"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big_endian", "big-endian"),
        (attrs.evolve(GOOD, pair_count=HUGE), "count", f"{HUGE} metadata pairs"),
        (attrs.evolve(GOOD, tensor_count=HUGE), "count", f"{HUGE} tensors"),
        (attrs.evolve(GOOD, pair_count=1_000_001), "count", "1000001 metadata pairs"),
        (attrs.evolve(GOOD, tensor_count=3), "tensor_name", "tensor 2 has a name of 0 bytes"),
        (GgufBytes().with_raw_pair(text("k", length=HUGE), 4, b""), "string_length", f"declares {HUGE} bytes"),
        (GgufBytes().with_raw_pair(text("k", length=(1 << 20) + 1), 4, b""), "string_length", "1048577 bytes"),
        (GgufBytes().with_raw_pair(text("k", length=999), 4, b""), "truncated", "the file ends inside"),
        (GgufBytes().with_raw_pair(text("k"), 8, text("v", length=HUGE)), "string_length", f"declares {HUGE} bytes"),
        (GgufBytes().with_raw_pair(text("k"), 8, text("value", length=1 << 20)), "truncated", "the value of 'k'"),
        (GgufBytes().with_value("", U32, 1), "key_empty", "empty key"),
        (GgufBytes().with_value("k", U32, 1).with_value("k", U32, 1), "key_duplicate", "'k' occurs twice"),
        (GgufBytes().with_value(b"k\xff", U32, 1), "utf8", "not valid UTF-8 at byte 1"),
        (GgufBytes().with_value("k", STRING, b"\xff"), "utf8", "the value of 'k'"),
        (GgufBytes().with_raw_pair(text("k"), 13, bytes(8)), "value_type", "type id 13"),
        (GgufBytes().with_raw_pair(text("k"), 7, b"\x02"), "bool", "byte 2"),
        (GgufBytes().with_array("k", U32, [], count=HUGE), "array_length", f"{HUGE} elements"),
        (GgufBytes().with_array("k", U32, [], count=1_000_001), "array_length", "1000001 elements"),
        (GgufBytes().with_array("k", U32, [], count=1_000_000), "truncated", "the value of 'k'"),
        (GgufBytes().with_array("k", STRING, [], count=1_000_000), "truncated", "the value of 'k'"),
        (GgufBytes().with_array("k", STRING, ["a"], count=2), "truncated", "the file ends inside"),
        (GgufBytes().with_raw_pair(text("k"), 9, struct.pack("<IQ", 9, 2**62)), "array_nested", "array of arrays"),
        (GgufBytes().with_raw_pair(text("k"), 9, struct.pack("<IQ", 99, 1)), "value_type", "type id 99"),
        (
            GgufBytes().with_raw_pair(text("k"), 9, struct.pack("<IQ", 8, 1) + text("", length=HUGE)),
            "string_length",
            "string 0",
        ),
        (GgufBytes().with_value("general.alignment", U32, 0), "alignment", "alignment is 0"),
        (GgufBytes().with_value("general.alignment", U32, 48), "alignment", "alignment is 48"),
        (GgufBytes().with_value("general.alignment", ValueType.UINT64, 64), "alignment", "stored as UINT64"),
        (GgufBytes().with_array("general.alignment", U32, [32]), "alignment", "stored as ARRAY"),
        (GgufBytes().with_tensor(""), "tensor_name", "0 bytes"),
        (GgufBytes().with_tensor("x" * 64), "tensor_name", "64 bytes"),
        (GgufBytes().with_tensor(b"\xc3"), "utf8", "name of tensor 0"),
        (GgufBytes().with_tensor("t").with_tensor("t"), "tensor_duplicate", "'t' occurs twice"),
        (GgufBytes().with_tensor("t", ()), "tensor_dims", "0 dimensions"),
        (GgufBytes().with_tensor("t", (1,) * 5), "tensor_dims", "5 dimensions"),
        (GgufBytes().with_tensor("t", (32, 0)), "tensor_shape", "(32, 0)"),
        (GgufBytes().with_tensor("t", (HUGE,)), "tensor_shape", str(HUGE)),
        (GgufBytes().with_tensor("t", (2**32, 2**32)), "tensor_size", "more than 2^63 - 1 elements"),
        (GgufBytes().with_tensor("t", (2**61, 2)), "tensor_size", "beyond 2^63 - 1 bytes"),
        (GgufBytes().with_tensor("t", (32,), offset_bytes=HUGE), "tensor_size", "beyond 2^63 - 1 bytes"),
        (GgufBytes().with_tensor("t", (32,), 4), "tensor_type", "unknown ggml type id 4"),
        (GgufBytes().with_tensor("t", (32,), 4711), "tensor_type", "unknown ggml type id 4711"),
        (GgufBytes().with_tensor("t", (48,), 8), "tensor_block", "48 elements per row"),
        (GgufBytes().with_tensor("t", (128,), 12), "tensor_block", "128 elements per row"),
        (GgufBytes().with_tensor("t", (32,), offset_bytes=64), "tensor_offset", "offset 64 of the data, expected 0"),
        (GgufBytes().with_tensor("t").with_tensor("u", offset_bytes=0), "tensor_offset", "'u' starts at offset 0"),
        (GgufBytes().with_tensor("t", (2**40,)), "truncated", "inside tensor 't'"),
    ],
)
def test_each_fault_has_its_verdict(tmp_path: Path, content: bytes | GgufBytes, check_id: str, words: str) -> None:
    error = refusal(tmp_path, content)
    assert error.check_id == f"gguf.{check_id}"
    assert words in str(error)


def test_b106_file_of_43_bytes_is_refused_at_once(tmp_path: Path) -> None:
    content = GgufBytes().with_raw_pair(text("a"), 9, struct.pack("<IQ", 0, HUGE)).build()
    assert len(content) == 49
    assert refusal(tmp_path, content[:43]).check_id == "gguf.truncated"
    assert refusal(tmp_path, content).check_id == "gguf.array_length"


def test_b107_zero_dimension_and_empty_key_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, GgufBytes().with_tensor("t", (0,))).check_id == "gguf.tensor_shape"
    assert refusal(tmp_path, GgufBytes().with_value("", STRING, "")).check_id == "gguf.key_empty"


def test_b125_version_verdicts_are_distinct(tmp_path: Path) -> None:
    assert scan_header(write(tmp_path, GgufBytes(version=2))).version == 2
    assert scan_header(write(tmp_path, GgufBytes(version=3))).version == 3
    verdicts = [refusal(tmp_path, GgufBytes(version=v)).check_id for v in (1, 0, 3 * 2**24)]
    assert verdicts == ["gguf.version_1", "gguf.version", "gguf.big_endian"]


def test_sum_of_arrays_is_limited(tmp_path: Path) -> None:
    content = GgufBytes()
    for index in range(9):
        body = struct.pack("<IQ", 0, 1_000_000) + bytes(1_000_000)
        content = content.with_raw_pair(text(f"k{index}"), 9, body)
    path = write(tmp_path, content)
    with pytest.raises(ArtifactFormatError, match="array elements above 8000000") as caught:
        scan_header(path)
    assert caught.value.check_id == "gguf.array_total"


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


def test_absent_directory_and_other_paths(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "absent.gguf", "No such file"),
        (tmp_path, "is a directory"),
        (Path("/dev/null"), "not a regular file"),
        (tmp_path / ("x" * 300), "File name too long"),
        (Path("a\0b"), "not a usable path"),
    ):
        with pytest.raises(ArtifactNotFoundError, match=words) as caught:
            scan_header(path)
        assert caught.value.hint


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, GOOD)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ArtifactNotFoundError, match="Permission denied"):
        scan_header(path)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_mutated_headers_raise_nothing_but_artifact_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(GOOD.with_array("list", U32, [1, 2, 3]).build())
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(content[:cut] if data.draw(st.booleans()) else content)
    error = refused(path)
    assert error is None or (error.hint and str(path) in str(error))


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200))
def test_arbitrary_bytes_after_a_good_start(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + content)
    error = refused(path)
    assert error is None or error.check_id.startswith("gguf.")
