"""Split models: every way in which shards fail to belong together (B112)."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.artifacts.shards import merge_shards, shard_position
from power_core.artifacts.target_checks import check_target
from power_core.errors import ArtifactContractError, ArtifactError, ArtifactFormatError, ArtifactNotFoundError
from power_core.testing.headers import GgufBytes, minimal_target

U16, I32, STRING = ValueType.UINT16, ValueType.INT32, ValueType.STRING
TOTAL_TENSORS = 4


def split_keys(content: GgufBytes, index: int, count: int = 3, total: int = TOTAL_TENSORS) -> GgufBytes:
    content = content.with_value("split.no", U16, index).with_value("split.count", U16, count)
    return content.with_value("split.tensors.count", I32, total)


def shard_path(folder: Path, number: int, count: int = 3) -> Path:
    return folder / f"m-{number:05d}-of-{count:05d}.gguf"


def write_model(folder: Path) -> Path:
    """Three shards; the first carries the metadata and two tensors."""
    shard_path(folder, 1).write_bytes(split_keys(minimal_target(), 0).build())
    shard_path(folder, 2).write_bytes(split_keys(GgufBytes(), 1).with_tensor("blk.0.a").build())
    shard_path(folder, 3).write_bytes(split_keys(GgufBytes(), 2).with_tensor("blk.0.b").build())
    return shard_path(folder, 1)


def refusal(path: Path) -> ArtifactError:
    with pytest.raises(ArtifactError) as caught:
        check_target(scan_header(path))
    return caught.value


def test_shards_are_checked_as_one_model(tmp_path: Path) -> None:
    header = scan_header(write_model(tmp_path))
    position = shard_position(header)
    assert position is not None
    assert (position.index, position.count, position.total_tensors) == (0, 3, TOTAL_TENSORS)
    assert list(merge_shards(header).tensors) == ["token_embd.weight", "blk.0.attn_norm.weight", "blk.0.a", "blk.0.b"]
    assert check_target(header).ok


def test_whole_model_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m-00001-of-00001.gguf"
    for content in (minimal_target(), split_keys(minimal_target(), 0, 1)):
        path.write_bytes(content.build())
        header = scan_header(path)
        assert shard_position(header) is None
        assert merge_shards(header) is header


def test_second_shard_names_the_first(tmp_path: Path) -> None:
    write_model(tmp_path)
    error = refusal(shard_path(tmp_path, 2))
    assert error.check_id == "split.first"
    assert "shard 2 of 3" in str(error)
    assert error.expected == "m-00001-of-00003.gguf"


def test_missing_and_truncated_shard_are_named(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    third = shard_path(tmp_path, 3)
    content = third.read_bytes()
    third.write_bytes(content[:-1])
    error = refusal(path)
    assert isinstance(error, ArtifactFormatError)
    assert third.name in str(error)
    third.unlink()
    error = refusal(path)
    assert isinstance(error, ArtifactNotFoundError)
    assert third.name in str(error)


@pytest.mark.parametrize("name", ["renamed.gguf", "m-00002-of-00003.gguf", "m-00001-of-00004.gguf", "m-1-of-3.gguf"])
def test_renamed_shard(tmp_path: Path, name: str) -> None:
    path = write_model(tmp_path).replace(tmp_path / name)
    error = refusal(path)
    assert error.check_id == "split.name"
    assert error.expected == "NAME-00001-of-00003.gguf"


@pytest.mark.parametrize(
    ("content", "check_id"),
    [
        (split_keys(GgufBytes(), 1).with_tensor("blk.0.b"), "split.sibling"),
        (split_keys(GgufBytes(), 2, count=4).with_tensor("blk.0.b"), "split.sibling"),
        (split_keys(GgufBytes(), 2, total=9).with_tensor("blk.0.b"), "split.sibling"),
        (GgufBytes().with_tensor("blk.0.b"), "split.sibling"),
        (
            split_keys(GgufBytes(), 2).with_value("general.architecture", STRING, "llama").with_tensor("blk.0.b"),
            "split.sibling",
        ),
        (split_keys(GgufBytes(), 2).with_tensor("blk.0.a"), "split.duplicate"),
        (split_keys(GgufBytes(), 2), "split.total"),
        (split_keys(GgufBytes(), 2).with_tensor("blk.0.b").with_tensor("blk.0.c"), "split.total"),
    ],
)
def test_third_shard_of_another_model(tmp_path: Path, content: GgufBytes, check_id: str) -> None:
    path = write_model(tmp_path)
    shard_path(tmp_path, 3).write_bytes(content.build())
    assert refusal(path).check_id == check_id


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GgufBytes().with_value("split.count", STRING, "3"), "split.count"),
        (GgufBytes().with_value("split.count", ValueType.FLOAT32, 3.0), "split.count"),
        (GgufBytes().with_value("split.count", U16, 3), "split.no"),
        (GgufBytes().with_value("split.count", U16, 3).with_value("split.no", U16, 0), "split.tensors.count"),
        (split_keys(GgufBytes(), 3), "split.no is 3"),
        (split_keys(GgufBytes(), 0, count=0), "split.count is 0"),
    ],
)
def test_wrong_split_keys_are_named(tmp_path: Path, content: GgufBytes, words: str) -> None:
    path = tmp_path / "m-00001-of-00003.gguf"
    path.write_bytes(content.build())
    with pytest.raises(ArtifactContractError, match=words):
        shard_position(scan_header(path))
