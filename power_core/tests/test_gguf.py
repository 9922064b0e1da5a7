"""The bounded header scan of good files: values, arrays, tensors, and the questions a header answers."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from pathlib import Path

import attrs
import numpy as np
import pytest
from gguf_scans import ARRAY, GOOD, I32, STRING, U32, write
from hypothesis import given
from hypothesis import strategies as st

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.errors import ArtifactContractError
from power_core.testing.headers import GgufBytes, single, text


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


def test_limits_leave_room_for_the_largest_vocabularies(tmp_path: Path) -> None:
    n_tokens, n_merges = 262_144, 514_906
    content = GgufBytes()
    for key, element, count, body in (
        ("tokens", STRING, n_tokens, b"".join(text(f"token{i}") for i in range(n_tokens))),
        ("merges", STRING, n_merges, text("merge of two") * n_merges),
        ("scores", ValueType.FLOAT32, n_tokens, bytes(4 * n_tokens)),
        ("token_type", I32, n_tokens, bytes(4 * n_tokens)),
    ):
        content = content.with_raw_pair(text(key), ARRAY, struct.pack("<IQ", element, count) + body)
    header = scan_header(write(tmp_path, content.with_value("tokenizer.chat_template", STRING, "x" * 200_000)))
    assert [len(header.metadata[key]) for key in ("tokens", "merges", "scores")] == [n_tokens, n_merges, n_tokens]


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
