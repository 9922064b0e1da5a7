"""A GGUF file taken apart, so that a test can change one piece and put it together again."""

from __future__ import annotations

import struct

import attrs

from power_core.artifacts.tensor_table import tensor_types
from power_core.artifacts.values import STRUCT_CODES, ValueType
from power_core.testing.headers import text

ALIGNMENT = 32
MOST_TENSOR_BYTES = 8 << 20


@attrs.frozen
class Pair:
    """One metadata pair as stored."""

    key: bytes
    type_id: int
    body: bytes = attrs.field(repr=lambda body: f"<{len(body)} bytes {body[:24]!r}>")


@attrs.frozen
class Tensor:
    """One entry of the tensor table."""

    name: bytes
    shape: tuple[int, ...]
    type_id: int
    offset_bytes: int


@attrs.frozen(kw_only=True)
class Parts:
    """A file in parts; counts that are None follow from the parts."""

    pairs: tuple[Pair, ...]
    tensors: tuple[Tensor, ...]
    data: bytes = attrs.field(repr=False)
    version: int = 3
    pair_count: int | None = None
    tensor_count: int | None = None

    def header(self) -> bytes:
        """Return everything before the tensor data."""
        pairs = (text(pair.key) + struct.pack("<I", pair.type_id) + pair.body for pair in self.pairs)
        start = struct.pack("<4sIQQ", b"GGUF", self.version, *self._counts())
        header = start + b"".join(pairs) + b"".join(map(_entry, self.tensors))
        return header + bytes(-len(header) % ALIGNMENT)

    def build(self) -> bytes:
        """Return the file."""
        return self.header() + self.data

    def laid_out(self) -> Parts:
        """Give every tensor its place, one behind the other, and its own data, cut or with zeros behind."""
        end, tensors, data = 0, [], []
        for tensor in self.tensors:
            tensors.append(attrs.evolve(tensor, offset_bytes=end))
            size = min(size_bytes(tensor), MOST_TENSOR_BYTES)
            padded = size + -size % ALIGNMENT
            data.append(self.data[tensor.offset_bytes : tensor.offset_bytes + size].ljust(padded, b"\0"))
            end += padded
        return attrs.evolve(self, tensors=tuple(tensors), data=b"".join(data))

    def _counts(self) -> tuple[int, int]:
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        return tensors, len(self.pairs) if self.pair_count is None else self.pair_count


def take_apart(content: bytes) -> Parts:
    """Take a well-formed file of version 3 apart."""
    reader = _Reader(content)
    _, _, tensor_count, pair_count = reader.take("4sIQQ")
    pairs = tuple(reader.pair() for _ in range(pair_count))
    tensors = tuple(reader.tensor() for _ in range(tensor_count))
    return Parts(pairs=pairs, tensors=tensors, data=content[reader.position + -reader.position % ALIGNMENT :])


def size_bytes(tensor: Tensor) -> int:
    """Return a tensor's size, 0 for one of an unknown type."""
    kind, elements = tensor_types().get(tensor.type_id), 1
    for extent in tensor.shape:
        elements *= extent
    return 0 if kind is None else elements // kind.block_elements * kind.block_bytes


def _entry(tensor: Tensor) -> bytes:
    shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
    return text(tensor.name) + shape + struct.pack("<IQ", tensor.type_id, tensor.offset_bytes)


class _Reader:
    """Walks over a file that is known to be well-formed."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def take(self, form: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(f"<{form}", self.content, self.position)
        self.position += struct.calcsize(f"<{form}")
        return values

    def string(self) -> bytes:
        (length,) = self.take("Q")
        self.position += length
        return self.content[self.position - length : self.position]

    def pair(self) -> Pair:
        key = self.string()
        (type_id,) = self.take("I")
        start = self.position
        self._skip(type_id)
        return Pair(key, type_id, self.content[start : self.position])

    def tensor(self) -> Tensor:
        name = self.string()
        (dims,) = self.take("I")
        shape = self.take(f"{dims}Q")
        return Tensor(name, shape, *self.take("IQ"))

    def _skip(self, type_id: int) -> None:
        if type_id == ValueType.ARRAY:
            element_id, count = self.take("IQ")
            for _ in range(count):
                self._skip(element_id)
        elif type_id == ValueType.STRING:
            self.string()
        else:
            self.take(STRUCT_CODES[ValueType(type_id)])
