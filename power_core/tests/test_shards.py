"""Split models (B112); the ways in which shards fail to belong together are in hostile_shards.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile_shards import TOTAL_TENSORS, shard_path, split_keys, write_model

from power_core.artifacts.gguf import scan_header
from power_core.artifacts.shards import merge_shards, shard_position
from power_core.artifacts.target_checks import check_target
from power_core.errors import ArtifactContractError, ArtifactFormatError, ArtifactNotFoundError
from power_core.testing.headers import minimal_target


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


def test_errors_name_what_to_give_instead(tmp_path: Path) -> None:
    first = write_model(tmp_path)
    for path, wanted in (
        (shard_path(tmp_path, 2), "m-00001-of-00003.gguf"),
        (first.replace(tmp_path / "renamed.gguf"), "NAME-00001-of-00003.gguf"),
    ):
        with pytest.raises(ArtifactContractError) as caught:
            check_target(scan_header(path))
        assert caught.value.expected == wanted


def test_missing_and_truncated_shard_are_named(tmp_path: Path) -> None:
    path, third = write_model(tmp_path), shard_path(tmp_path, 3)
    os.truncate(third, third.stat().st_size - 1)
    with pytest.raises(ArtifactFormatError, match=third.name):
        check_target(scan_header(path))
    third.unlink()
    with pytest.raises(ArtifactNotFoundError, match=third.name):
        check_target(scan_header(path))
