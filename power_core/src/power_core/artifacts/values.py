"""The value types of GGUF metadata, and the array of strings that decodes on demand."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TypeAlias, overload

import attrs
import numpy as np
from numpy.typing import NDArray


class ValueType(IntEnum):
    """Type ids of metadata values, as stored in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


STRUCT_CODES: dict[ValueType, str] = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "B",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}
"""``struct`` code of every fixed-size value type; little endian, standard sizes."""

UNSIGNED_TYPES = (ValueType.UINT8, ValueType.UINT16, ValueType.UINT32, ValueType.UINT64)
INTEGER_TYPES = (*UNSIGNED_TYPES, ValueType.INT8, ValueType.INT16, ValueType.INT32, ValueType.INT64)

LENGTH_BYTES = 8


@attrs.frozen(kw_only=True)
class StringArray(Sequence[str]):
    """Strings of one metadata array, kept as the file's bytes and decoded when asked for.

    Vocabularies may hold tokens that are not valid UTF-8; those bytes come back as surrogate escapes, so that
    ``text.encode("utf-8", "surrogateescape")`` is always the exact byte string.

    Attributes:
        data: The array as stored: every string preceded by its length in eight bytes.
        ends: End of every string inside ``data``.
    """

    data: bytes = attrs.field(repr=False)
    ends: array[int] = attrs.field(repr=False)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.raw(index).decode("utf-8", "surrogateescape")

    def raw(self, index: int) -> bytes:
        """Return the exact bytes of one string."""
        position = range(len(self.ends))[index]
        start = self.ends[position - 1] if position else 0
        return self.data[start + LENGTH_BYTES : self.ends[position]]

    def iter_raw(self) -> Iterator[bytes]:
        """Yield the exact bytes of every string."""
        start = 0
        for end in self.ends:
            yield self.data[start + LENGTH_BYTES : end]
            start = end

    def lengths_bytes(self) -> NDArray[np.int64]:
        """Return the length of every string."""
        ends = np.array(self.ends, np.int64)
        return ends - np.concatenate(([0], ends[:-1])) - LENGTH_BYTES


def count_repeated(numbers: NDArray[np.int64]) -> int:
    """Return how many of the numbers occurred before."""
    ordered = np.sort(numbers)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


Scalar: TypeAlias = bool | int | float | str
MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...] | StringArray
