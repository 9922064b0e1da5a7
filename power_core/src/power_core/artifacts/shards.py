"""Models that are split into several files.

The convention, which trips readers: ``split.no`` counts from 0 but file names count from 1
(``NAME-00001-of-00003.gguf``), ``split.tensors.count`` is the total over all shards, and only the first shard carries
the architecture and the tokenizer.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from power_core.artifacts.gguf import MAX_ENTRIES, GgufHeader, TensorInfo, scan_header
from power_core.artifacts.values import INTEGER_TYPES
from power_core.errors import ArtifactContractError

MAX_SHARDS = 1024
NAME_PATTERN = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@attrs.frozen(kw_only=True)
class ShardPosition:
    """Place of a file among the shards of one model; ``index`` counts from 0."""

    index: int
    count: int
    total_tensors: int


def shard_position(header: GgufHeader) -> ShardPosition | None:
    """Return the file's place among its shards, or None when it is a whole model (no ``split.count``, or 1).

    Raises:
        ArtifactContractError: a ``split.*`` key is missing, not an integer, or out of range.
    """
    if header.get("split.count") is None:
        return None
    count: int = header.require("split.count", *INTEGER_TYPES)
    if count == 1:
        return None
    index: int = header.require("split.no", *INTEGER_TYPES)
    total_tensors: int = header.require("split.tensors.count", *INTEGER_TYPES)
    if not 0 <= index < count <= MAX_SHARDS or not 0 <= total_tensors <= MAX_ENTRIES:
        raise _broken(
            header.path,
            "range",
            f"split.no is {index}, split.count is {count}, split.tensors.count is {total_tensors}",
            f"0 <= split.no < split.count <= {MAX_SHARDS}, at most {MAX_ENTRIES} tensors",
            (index, count, total_tensors),
        )
    return ShardPosition(index=index, count=count, total_tensors=total_tensors)


def shard_paths(header: GgufHeader, position: ShardPosition) -> list[Path]:
    """Return the paths of all shards, in order, derived from the name of one of them.

    Raises:
        ArtifactContractError: the file's name does not follow the convention, or disagrees with its metadata.
    """
    match = NAME_PATTERN.fullmatch(header.path.name)
    wanted = f"NAME-{position.index + 1:05d}-of-{position.count:05d}.gguf"
    if match is None or (int(match["number"]), int(match["count"])) != (position.index + 1, position.count):
        raise _broken(
            header.path,
            "name",
            f"the file is shard {position.index + 1} of {position.count}, so its name has to be {wanted}",
            wanted,
            header.path.name,
        )
    prefix = match["prefix"]
    return [header.path.with_name(f"{prefix}-{i + 1:05d}-of-{position.count:05d}.gguf") for i in range(position.count)]


def model_paths(header: GgufHeader) -> list[Path]:
    """Return the files that make up the model: every shard when ``header`` is the first one's, else its file alone.

    Raises:
        ArtifactContractError: a ``split.*`` key or the file's name is wrong.
    """
    position = shard_position(header)
    return [header.path] if position is None or position.index != 0 else shard_paths(header, position)


def merge_shards(header: GgufHeader) -> GgufHeader:
    """Scan every shard of a split model and return the first shard's header with the tensors of all.

    A whole model comes back unchanged. Tensor offsets stay relative to the shard that holds the tensor.

    Raises:
        ArtifactContractError: not the first shard; a name, number, count or total is wrong; a tensor occurs twice.
        ArtifactNotFoundError, ArtifactFormatError: a shard is missing or damaged; the error names it.
    """
    position = shard_position(header)
    if position is None:
        return header
    paths = shard_paths(header, position)
    if position.index != 0:
        raise _broken(
            header.path, "first", f"this is shard {position.index + 1} of {position.count}", paths[0].name, None
        )
    tensors: dict[str, TensorInfo] = dict(header.tensors)
    for index, path in enumerate(paths[1:], start=1):
        shard = scan_header(path)
        _check_sibling(header, shard, attrs.evolve(position, index=index))
        repeated = next((name for name in shard.tensors if name in tensors), None)
        if repeated is not None:
            raise _broken(path, "duplicate", f"tensor {repeated!r} occurs in an earlier shard too", None, repeated)
        tensors |= shard.tensors
        if len(tensors) > position.total_tensors:
            break
    if len(tensors) != position.total_tensors:
        raise _broken(
            header.path,
            "total",
            f"the shards hold {len(tensors)} tensors together, split.tensors.count says {position.total_tensors}",
            position.total_tensors,
            len(tensors),
        )
    return attrs.evolve(header, tensors=tensors)


def _check_sibling(first: GgufHeader, shard: GgufHeader, expected: ShardPosition) -> None:
    found = shard_position(shard)
    if found != expected:
        raise _broken(shard.path, "sibling", f"the shard does not belong to {first.path.name}", expected, found)
    key = "general.architecture"
    if key in shard.metadata and shard.get(key) != first.get(key):
        raise _broken(shard.path, "sibling", "the shard is of another model", first.get(key), shard.get(key))


def _broken(path: Path, rule: str, message: str, expected: object, actual: object) -> ArtifactContractError:
    return ArtifactContractError(
        f"{path}: {message}",
        path=str(path),
        check_id=f"split.{rule}",
        expected=expected,
        actual=actual,
        hint="put all shards of one model into one folder, with their own names, and give the first one",
    )
