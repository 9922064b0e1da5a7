"""Split models whose shards do not belong together (B112, B113)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from power_core.artifacts.gguf import ValueType
from power_core.testing.headers import GgufBytes, minimal_target

U16, I32, STRING = ValueType.UINT16, ValueType.INT32, ValueType.STRING
TOTAL_TENSORS = 4


@attrs.frozen
class HostileShards:
    """A whole model of three shards, changed: name, fault, check, how to change it, the stem of the shard to open."""

    name: str
    fault: str
    check: str
    change: Callable[[Path], object]
    opened: str = "m-00001-of-00003"
    code: str = "artifact.contract"

    def write(self, folder: Path) -> Path:
        """Write the model, change it, and return the file to open."""
        write_model(folder)
        self.change(folder)
        return folder / f"{self.opened}.gguf"


def split_keys(content: GgufBytes, index: int, count: int = 3, total: int = TOTAL_TENSORS) -> GgufBytes:
    """Add the keys of one shard."""
    content = content.with_value("split.no", U16, index).with_value("split.count", U16, count)
    return content.with_value("split.tensors.count", I32, total)


def shard_path(folder: Path, number: int, count: int = 3) -> Path:
    """Return a shard's path; numbers count from 1."""
    return folder / f"m-{number:05d}-of-{count:05d}.gguf"


def write_model(folder: Path) -> Path:
    """Three shards; the first carries the metadata and two tensors."""
    shard_path(folder, 1).write_bytes(split_keys(minimal_target(), 0).build())
    shard_path(folder, 2).write_bytes(split_keys(GgufBytes(), 1).with_tensor("blk.0.a").build())
    shard_path(folder, 3).write_bytes(split_keys(GgufBytes(), 2).with_tensor("blk.0.b").build())
    return shard_path(folder, 1)


def shard(number: int, content: GgufBytes) -> Callable[[Path], object]:
    """Replace a shard."""
    return lambda folder: shard_path(folder, number).write_bytes(content.build())


def third(content: GgufBytes) -> Callable[[Path], object]:
    """Replace the third shard by one that has its split keys."""
    return shard(3, split_keys(content, 2))


def renamed(stem: str) -> Callable[[Path], object]:
    """Rename the first shard."""
    return lambda folder: shard_path(folder, 1).rename(folder / f"{stem}.gguf")


def wide_embedding(folder: Path) -> None:
    """Keep every tensor inside its shard, with the embedding in the second, one row short."""
    first = GgufBytes(pairs=minimal_target().pairs).with_tensor("blk.0.attn_norm.weight")
    shard_path(folder, 1).write_bytes(split_keys(first, 0).build())
    second = split_keys(GgufBytes(), 1).with_tensor("blk.0.a").with_tensor("token_embd.weight", (32, 3))
    shard_path(folder, 2).write_bytes(second.build())


EMPTY = GgufBytes()
MODELS = (
    HostileShards("shard-2-given", "the second shard is given", "split.first", lambda _: None, "m-00002-of-00003"),
    HostileShards(
        "shard-missing",
        "the third shard is missing",
        "",
        lambda folder: shard_path(folder, 3).unlink(),
        code="artifact.not_found",
    ),
    HostileShards(
        "shard-cut",
        "the third shard lacks its last byte",
        "gguf.truncated",
        shard(3, attrs.evolve(split_keys(EMPTY, 2).with_tensor("blk.0.b"), missing_bytes=1)),
        code="artifact.format",
    ),
    HostileShards(
        "shard-dim-damaged",
        "a dimension in the second shard is damaged",
        "gguf.tensor_shape",
        shard(2, split_keys(EMPTY, 1).with_tensor("blk.0.a", (2**63 + 32,))),
        code="artifact.format",
    ),
    HostileShards(
        "shard-dim-larger",
        "a dimension in the second shard is larger than its data",
        "gguf.truncated",
        shard(2, attrs.evolve(split_keys(EMPTY, 1).with_tensor("blk.0.a", (64,)), missing_bytes=128)),
        code="artifact.format",
    ),
    HostileShards(
        "shard-embedding-short", "the second shard's embedding lacks a token", "target.token_embd", wide_embedding
    ),
    *(
        HostileShards(f"shard-named-{stem}", f"the first shard is called {stem}", "split.name", renamed(stem), stem)
        for stem in ("renamed", "m-00002-of-00003", "m-00001-of-00004", "m-1-of-3")
    ),
    HostileShards("shard-2-twice", "the third shard is the second", "split.sibling", shard(3, split_keys(EMPTY, 1))),
    HostileShards("shard-of-4", "the third shard is one of four", "split.sibling", shard(3, split_keys(EMPTY, 2, 4))),
    HostileShards(
        "shard-other-total",
        "the third shard counts 9 tensors",
        "split.sibling",
        shard(3, split_keys(EMPTY, 2, total=9)),
    ),
    HostileShards("shard-whole-model", "the third shard is a whole model", "split.sibling", shard(3, minimal_target())),
    HostileShards(
        "shard-of-other-model",
        "the third shard is of another architecture",
        "split.sibling",
        third(EMPTY.with_value("general.architecture", STRING, "llama")),
    ),
    HostileShards(
        "shard-tensor-twice", "a tensor in two shards", "split.duplicate", third(EMPTY.with_tensor("blk.0.a"))
    ),
    HostileShards("shard-without-tensors", "a tensor of the third shard is missing", "split.total", third(EMPTY)),
    HostileShards(
        "shard-tensor-too-many",
        "a tensor more than counted",
        "split.total",
        third(EMPTY.with_tensor("blk.0.b").with_tensor("blk.0.c")),
    ),
    HostileShards(
        "shard-count-text",
        "split.count is a text",
        "gguf.key_type",
        shard(1, minimal_target().with_value("split.count", STRING, "3")),
    ),
    HostileShards(
        "shard-count-float",
        "split.count is a float",
        "gguf.key_type",
        shard(1, minimal_target().with_value("split.count", ValueType.FLOAT32, 3.0)),
    ),
    HostileShards(
        "shard-without-number",
        "split.no is missing",
        "gguf.key_missing",
        shard(1, minimal_target().with_value("split.count", U16, 3)),
    ),
    HostileShards(
        "shard-without-total",
        "split.tensors.count is missing",
        "gguf.key_missing",
        shard(1, minimal_target().with_value("split.count", U16, 3).with_value("split.no", U16, 0)),
    ),
    HostileShards("shard-3-of-3", "split.no is 3 of 3", "split.range", shard(1, split_keys(minimal_target(), 3))),
    HostileShards("shard-of-0", "split.count is 0", "split.range", shard(1, split_keys(minimal_target(), 0, 0))),
    HostileShards(
        "shard-of-65535", "a model of 65,535 shards", "split.range", shard(1, split_keys(minimal_target(), 0, 65_535))
    ),
    HostileShards(
        "shard-total-negative", "-1 tensors", "split.range", shard(1, split_keys(minimal_target(), 0, total=-1))
    ),
)
