"""The bounded header scan: every limit, each with its verdict; hostile files cost neither time nor memory."""

from __future__ import annotations

import os
import pickle
import random
import struct
import time
import tracemalloc
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.errors import ArtifactContractError, ArtifactError, ArtifactFormatError, ArtifactNotFoundError
from power_core.testing.headers import GgufBytes, minimal_target, single, text
from power_core.testing.models import build_tiny_target

U32, I32, STRING, ARRAY = ValueType.UINT32, ValueType.INT32, ValueType.STRING, ValueType.ARRAY
GOOD = minimal_target()
HUGE = 2**63


def write(folder: Path, content: bytes | GgufBytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content if isinstance(content, bytes) else content.build())
    return path


def refusal(folder: Path, content: bytes | GgufBytes) -> ArtifactFormatError:
    """Scan hostile bytes within a time and memory limit and return the error."""
    path = write(folder, content)
    tracemalloc.start()
    started = time.monotonic()
    try:
        with pytest.raises(ArtifactFormatError) as caught:
            scan_header(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started < 5.0
    assert peak_bytes < 32 << 20
    assert str(path) in str(caught.value)
    assert caught.value.hint
    return caught.value


def refused(path: Path) -> ArtifactError | None:
    """Scan and read what the header offers; anything but an ``ArtifactError`` is a failure of the test."""
    try:
        header = scan_header(path)
        _ = header.architecture, header.nextn_layers
    except ArtifactError as error:
        return error
    return None


def test_reads_every_value_type(tmp_path: Path) -> None:
    values = {
        ValueType.UINT8: 255,
        ValueType.INT8: -128,
        ValueType.UINT16: 65535,
        ValueType.INT16: -32768,
        U32: 2**32 - 1,
        I32: -(2**31),
        ValueType.FLOAT32: 0.5,
        ValueType.BOOL: True,
        STRING: "häuser",
        ValueType.UINT64: 2**64 - 1,
        ValueType.INT64: -(2**63),
        ValueType.FLOAT64: 1e300,
    }
    content = GgufBytes()
    for value_type, value in values.items():
        content = content.with_value(f"one.{value_type.name}", value_type, value)
        content = content.with_array(f"many.{value_type.name}", value_type, [value, value])
    header = scan_header(write(tmp_path, content))
    for value_type, value in values.items():
        assert header.get(f"one.{value_type.name}") == value
        assert header.value_type(f"one.{value_type.name}") is value_type
        assert header.element_type(f"one.{value_type.name}") is None
        assert list(header.metadata[f"many.{value_type.name}"]) == [value, value]
        assert header.value_type(f"many.{value_type.name}") is ARRAY
        assert header.element_type(f"many.{value_type.name}") is value_type
    assert type(header.get("one.BOOL")) is bool


def test_reads_tensors_and_offsets(tmp_path: Path) -> None:
    content = GgufBytes().with_tensor("a", (33,)).with_tensor("b", (256, 3, 2), 12).with_tensor("c", (64,), 1)
    header = scan_header(write(tmp_path, content))
    found = [(t.name, t.shape, t.type_name, t.offset_bytes, t.size_bytes) for t in header.tensors.values()]
    assert found == [
        ("a", (33,), "F32", 0, 132),
        ("b", (256, 3, 2), "Q4_K", 160, 864),
        ("c", (64,), "F16", 1024, 128),
    ]
    assert header.data_offset_bytes % header.alignment == 0
    assert header.data_offset_bytes + 1024 + 128 == header.file_bytes


def test_own_alignment(tmp_path: Path) -> None:
    content = GgufBytes(alignment=256).with_value("general.alignment", U32, 256).with_tensor("a").with_tensor("b")
    header = scan_header(write(tmp_path, content))
    assert header.alignment == 256
    assert header.tensors["b"].offset_bytes == 256


def test_header_is_a_plain_value(tmp_path: Path) -> None:
    header = scan_header(write(tmp_path, GOOD))
    assert pickle.loads(pickle.dumps(header)) == header
    assert "token_embd" not in repr(header)


def test_header_without_entries(tmp_path: Path) -> None:
    header = scan_header(write(tmp_path, GgufBytes(version=2)))
    assert (header.version, dict(header.metadata), dict(header.tensors)) == (2, {}, {})


def test_strings_keep_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    tokens = [b"a", b"\xff\xfe", b"", "é".encode()]
    header = scan_header(write(tmp_path, GgufBytes().with_array("t", STRING, tokens)))
    array = header.require_array("t", STRING)
    assert list(array.iter_raw()) == tokens
    assert [array.raw(i) for i in range(-4, 0)] == tokens
    assert array[1].encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert array[2:] == ["", "é"]
    with pytest.raises(IndexError):
        array.raw(4)


def test_array_longer_than_one_chunk(tmp_path: Path) -> None:
    tokens = [bytes([65 + i % 26]) * 1000 for i in range(9_000)]
    header = scan_header(write(tmp_path, GgufBytes().with_array("t", STRING, tokens).with_value("u", U32, 7)))
    assert list(header.require_array("t").iter_raw()) == tokens
    assert header.get("u") == 7


def test_large_vocabulary_is_scanned_without_decoding(tmp_path: Path) -> None:
    tokens = [f"token{i}" for i in range(262_144)]
    path = write(tmp_path, GgufBytes().with_array("tokenizer.ggml.tokens", STRING, tokens))
    tracemalloc.start()
    header = scan_header(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert header.metadata["tokenizer.ggml.tokens"][-1] == tokens[-1]
    assert peak_bytes < 8 * path.stat().st_size


def test_tensor_data_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, attrs.evolve(GOOD.with_tensor("big", (1 << 22, 1 << 6)), missing_bytes=0, data_bytes=0))
    header_bytes = path.stat().st_size
    with path.open("r+b") as handle:
        handle.truncate(header_bytes + (4 << 28) + 1024)
    tracemalloc.start()
    header = scan_header(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert header.tensors["big"].size_bytes == 1 << 30
    assert peak_bytes < 32 << 20


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


def test_require_names_key_and_types(tmp_path: Path) -> None:
    content = GgufBytes().with_value("n", I32, 1).with_array("list", U32, [1])
    header = scan_header(write(tmp_path, content))
    assert header.require("n") == header.require("n", U32, I32) == 1
    assert header.require_array("list", U32, I32) == (1,)
    for call, words in (
        (lambda: header.require("absent"), "'absent' is missing"),
        (lambda: header.require("n", U32), "stored as INT32, expected UINT32"),
        (lambda: header.require("list", U32), "stored as ARRAY, expected UINT32"),
        (lambda: header.require_array("n", U32), "stored as INT32, expected array of UINT32"),
        (lambda: header.require_array("n"), "stored as INT32, expected array"),
        (lambda: header.require_array("list", STRING), "stored as array of UINT32, expected array of STRING"),
        (lambda: header.value_type("absent"), "'absent' is missing"),
    ):
        with pytest.raises(ArtifactContractError, match=words) as caught:
            call()
        assert caught.value.check_id.startswith("gguf.key_")


def test_architecture_and_its_keys(tmp_path: Path) -> None:
    header = scan_header(write(tmp_path, GOOD))
    assert header.architecture == "qwen3"
    assert header.arch_key("block_count") == "qwen3.block_count"
    for content in (GgufBytes(), GgufBytes().with_value("general.architecture", STRING, "")):
        with pytest.raises(ArtifactContractError, match=r"general\.architecture"):
            _ = scan_header(write(tmp_path, content)).architecture


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((), 0),
        ((("a.nextn_predict_layers", U32, 2),), 2),
        ((("a.nextn_predict_layers", ValueType.UINT8, 1), ("b.nextn_predict_layers", U32, 1)), 1),
        ((("a.nextn_predict_layers", I32, 1),), "stored as INT32"),
        ((("a.nextn_predict_layers", ValueType.BOOL, True),), "stored as BOOL"),
        ((("a.nextn_predict_layers", STRING, "1"),), "stored as STRING"),
        ((("a.nextn_predict_layers", U32, 1), ("b.nextn_predict_layers", U32, 2)), "disagree"),
    ],
)
def test_nextn_layers(tmp_path: Path, pairs: tuple[tuple[str, ValueType, int], ...], expected: int | str) -> None:
    content = GgufBytes()
    for key, value_type, value in pairs:
        content = content.with_value(key, value_type, value)
    header = scan_header(write(tmp_path, content))
    if isinstance(expected, int):
        assert header.nextn_layers == expected
        return
    with pytest.raises(ArtifactContractError, match=expected):
        _ = header.nextn_layers


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


@given(value=st.lists(st.binary(max_size=40), max_size=30))
def test_string_arrays_round_trip(tmp_path_factory: pytest.TempPathFactory, value: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "strings.gguf"
    path.write_bytes(GgufBytes().with_array("t", STRING, value).build())
    array = scan_header(path).require_array("t", STRING)
    assert [array.raw(i) for i in range(len(array))] == list(array.iter_raw()) == value


def test_numbers_equal_numpy(tmp_path: Path) -> None:
    floats = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    body = struct.pack("<IQ", 6, 1000) + floats.tobytes()
    header = scan_header(write(tmp_path, GgufBytes().with_raw_pair(text("f"), 9, body)))
    assert np.array_equal(np.array(header.metadata["f"], np.float32), floats)
    assert single(ValueType.FLOAT32, float(floats[0])) == floats[:1].tobytes()
