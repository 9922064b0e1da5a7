"""Builds GGUF bytes field by field, so that a test can write any single fault.

A ``GgufBytes`` is a value: every ``with_`` method returns a changed copy. Counts and the data section follow from what
was added, unless a field says otherwise::

    good = GgufBytes().with_value("general.architecture", ValueType.STRING, "qwen3")
    huge = attrs.evolve(good, pair_count=2**63)
    path.write_bytes(huge.build())
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import attrs

from power_core.artifacts.tensor_table import tensor_types
from power_core.artifacts.values import STRUCT_CODES, ValueType

Value = bool | int | float | str | bytes


def text(value: str | bytes, *, length: int | None = None) -> bytes:
    """Encode a length-prefixed string; ``length`` writes another length than the true one."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def single(value_type: ValueType, value: Value) -> bytes:
    """Encode one value without its type."""
    if isinstance(value, str | bytes):
        return text(value)
    return struct.pack(f"<{STRUCT_CODES[value_type]}", value)


@attrs.frozen(kw_only=True)
class GgufBytes:
    """A GGUF file in the making.

    Attributes:
        magic: First four bytes.
        version: Version field.
        pairs: Encoded metadata pairs.
        tensors: Encoded entries of the tensor table.
        pair_count: Declared number of pairs; the true one when None.
        tensor_count: Declared number of tensors; the true one when None.
        alignment: Alignment used for padding; declare ``general.alignment`` yourself when it is not 32.
        data_bytes: Bytes of tensor data so far.
        missing_bytes: Bytes left out at the end of the file.
    """

    magic: bytes = b"GGUF"
    version: int = 3
    pairs: tuple[bytes, ...] = ()
    tensors: tuple[bytes, ...] = ()
    pair_count: int | None = None
    tensor_count: int | None = None
    alignment: int = 32
    data_bytes: int = 0
    missing_bytes: int = 0

    def with_value(self, key: str | bytes, value_type: ValueType, value: Value) -> GgufBytes:
        """Add a single value."""
        return self.with_raw_pair(text(key), int(value_type), single(value_type, value))

    def with_array(
        self, key: str | bytes, element_type: ValueType, values: Sequence[Value], *, count: int | None = None
    ) -> GgufBytes:
        """Add an array; ``count`` declares another length than the true one."""
        body = struct.pack("<IQ", int(element_type), len(values) if count is None else count)
        return self.with_raw_pair(
            text(key), int(ValueType.ARRAY), body + b"".join(single(element_type, value) for value in values)
        )

    def with_raw_pair(self, key: bytes, type_id: int, body: bytes) -> GgufBytes:
        """Add a pair from encoded parts; ``type_id`` may be one that does not exist."""
        return attrs.evolve(self, pairs=(*self.pairs, key + struct.pack("<I", type_id) + body))

    def without(self, key: str) -> GgufBytes:
        """Leave out the pairs of a key."""
        return attrs.evolve(self, pairs=tuple(pair for pair in self.pairs if not pair.startswith(text(key))))

    def with_tensor(
        self, name: str | bytes, shape: Sequence[int] = (32,), type_id: int = 0, *, offset_bytes: int | None = None
    ) -> GgufBytes:
        """Add a tensor of zeros; ``offset_bytes`` declares another place than the next free one."""
        declared = self.data_bytes if offset_bytes is None else offset_bytes
        entry = text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        entry += struct.pack("<IQ", type_id, declared)
        size_bytes = _size_bytes(shape, type_id)
        padded = size_bytes + (-size_bytes) % self.alignment
        return attrs.evolve(self, tensors=(*self.tensors, entry), data_bytes=self.data_bytes + padded)

    def build(self) -> bytes:
        """Return the file."""
        pair_count = len(self.pairs) if self.pair_count is None else self.pair_count
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        start = self.magic + struct.pack("<IQQ", self.version, tensor_count, pair_count)
        header = start + b"".join(self.pairs) + b"".join(self.tensors)
        whole = header + bytes((-len(header)) % self.alignment if self.tensors else 0) + bytes(self.data_bytes)
        return whole[: len(whole) - self.missing_bytes]


def minimal_target() -> GgufBytes:
    """Return the header of a small attention-only target that passes every check, with tensors of zeros."""
    header = GgufBytes().with_value("general.architecture", ValueType.STRING, "qwen3")
    for suffix, value in (
        ("context_length", 64),
        ("embedding_length", 32),
        ("block_count", 1),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ):
        header = header.with_value(f"qwen3.{suffix}", ValueType.UINT32, value)
    header = (
        header.with_value("tokenizer.ggml.model", ValueType.STRING, "gpt2")
        .with_value("tokenizer.ggml.pre", ValueType.STRING, "qwen2")
        .with_array("tokenizer.ggml.tokens", ValueType.STRING, ["a", "b", "ab", "<end>"])
        .with_array("tokenizer.ggml.token_type", ValueType.INT32, [1, 1, 1, 3])
        .with_array("tokenizer.ggml.merges", ValueType.STRING, ["a b"])
        .with_value("tokenizer.ggml.eos_token_id", ValueType.UINT32, 3)
        .with_value("tokenizer.ggml.add_bos_token", ValueType.BOOL, False)
    )
    return header.with_tensor("token_embd.weight", (32, 4)).with_tensor("blk.0.attn_norm.weight", (32,))


def _size_bytes(shape: Sequence[int], type_id: int) -> int:
    """Bytes of a tensor, or 0 when the shape or type is one of the faults and has no sensible size."""
    kind = tensor_types().get(type_id)
    elements = 1
    for extent in shape:
        elements *= extent
    if kind is None or elements > 1 << 24:
        return 0
    return elements // kind.block_elements * kind.block_bytes
