"""Reads a GGUF header front to back from an open file, and never trusts a length that the file declares."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import BinaryIO

from power_core.artifacts.values import LENGTH_BYTES, STRUCT_CODES, StringArray, ValueType
from power_core.errors import ArtifactFormatError, ArtifactNotFoundError

MAX_STRING_BYTES = 1 << 20
MAX_ARRAY_ELEMENTS = 1_000_000
MAX_TOTAL_ELEMENTS = 8_000_000
MAX_HEADER_BYTES = 256 << 20
CHUNK_BYTES = 4 << 20

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class HeaderReader:
    """A cursor over the first bytes of a file. Reads in chunks, at most ``MAX_HEADER_BYTES`` in all.

    Every failure is an ``ArtifactFormatError`` whose ``check_id`` starts with ``gguf.``.
    """

    def __init__(self, handle: BinaryIO, path: Path, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes
        self.position = 0
        self._handle = handle
        self._buffer = bytearray()
        self._elements_left = MAX_TOTAL_ELEMENTS

    def fail(
        self, check_id: str, message: str, *, expected: object = None, actual: object = None, hint: str = ""
    ) -> ArtifactFormatError:
        """Build the error for this file; the caller raises it."""
        return ArtifactFormatError(
            f"{self.path}: {message}",
            path=str(self.path),
            check_id=f"gguf.{check_id}",
            expected=expected,
            actual=actual,
            hint=hint or "the file is damaged or was not written as GGUF; fetch or convert it again",
        )

    def u32(self, what: str) -> int:
        """Read an unsigned 32-bit integer."""
        return int(self._unpack(_U32, what))

    def u64(self, what: str) -> int:
        """Read an unsigned 64-bit integer."""
        return int(self._unpack(_U64, what))

    def raw(self, size_bytes: int, what: str) -> bytes:
        """Read exactly ``size_bytes`` bytes."""
        end = self.position + size_bytes
        self._need(end, what)
        data = bytes(self._buffer[self.position : end])
        self.position = end
        return data

    def text(self, what: str) -> str:
        """Read a length-prefixed string that must be valid UTF-8."""
        length_bytes = self.u64(f"the length of {what}")
        self._check_string_length(length_bytes, what)
        data = self.raw(length_bytes, what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("utf8", f"{what} is not valid UTF-8 at byte {error.start}", actual=data[:32]) from error

    def numbers(self, value_type: ValueType, count: int, what: str) -> tuple[int | float | bool, ...]:
        """Read ``count`` values of one fixed-size type."""
        form = struct.Struct(f"<{count}{STRUCT_CODES[value_type]}")
        values: tuple[int | float, ...] = form.unpack(self.raw(form.size, what))
        if value_type is not ValueType.BOOL:
            return values
        if any(value > 1 for value in values):
            raise self.fail(
                "bool", f"{what} is a boolean with the byte {max(values)}", expected="0 or 1", actual=max(values)
            )
        return tuple(value == 1 for value in values)

    def strings(self, count: int, what: str) -> StringArray:
        """Read ``count`` length-prefixed byte strings; they are not decoded."""
        self._need_room(count * LENGTH_BYTES, what)
        buffer, length_at = self._buffer, _U64.unpack_from
        start = position = self.position
        have = len(buffer)
        ends = array("Q")
        for _ in range(count):
            if position + LENGTH_BYTES > have:
                self._need(position + LENGTH_BYTES, what)
                have = len(buffer)
            length_bytes: int = length_at(buffer, position)[0]
            position += LENGTH_BYTES + length_bytes
            if length_bytes > MAX_STRING_BYTES or position > have:
                self._check_string_length(length_bytes, f"string {len(ends)} of {what}")
                self._need(position, what)
                have = len(buffer)
            ends.append(position - start)
        self.position = position
        return StringArray(data=bytes(buffer[start:position]), ends=ends)

    def array_count(self, what: str) -> int:
        """Read an array's element count and charge it to the header's budget."""
        count = self.u64(f"the length of {what}")
        if count > MAX_ARRAY_ELEMENTS:
            raise self.fail(
                "array_length",
                f"{what} declares {count} elements",
                expected=f"at most {MAX_ARRAY_ELEMENTS}",
                actual=count,
            )
        self._elements_left -= count
        if self._elements_left < 0:
            raise self.fail(
                "array_total",
                f"{what} brings the header's array elements above {MAX_TOTAL_ELEMENTS}",
                expected=f"at most {MAX_TOTAL_ELEMENTS} in all arrays",
            )
        return count

    def _unpack(self, form: struct.Struct, what: str) -> int:
        end = self.position + form.size
        self._need(end, what)
        value: int = form.unpack_from(self._buffer, self.position)[0]
        self.position = end
        return value

    def _check_string_length(self, length_bytes: int, what: str) -> None:
        if length_bytes > MAX_STRING_BYTES:
            raise self.fail(
                "string_length",
                f"{what} declares {length_bytes} bytes",
                expected=f"at most {MAX_STRING_BYTES} bytes",
                actual=length_bytes,
            )

    def _need_room(self, size_bytes: int, what: str) -> None:
        end = self.position + size_bytes
        if end > self.file_bytes:
            raise self.fail(
                "truncated",
                f"the file ends inside {what}: it needs at least {end} bytes, the file has {self.file_bytes}",
                expected=end,
                actual=self.file_bytes,
                hint="the file is incomplete or damaged; fetch it again and compare its size with the source",
            )
        if end > MAX_HEADER_BYTES:
            raise self.fail(
                "header_bytes",
                f"the header does not end within {MAX_HEADER_BYTES} bytes ({what} reaches byte {end})",
                expected=f"at most {MAX_HEADER_BYTES} bytes",
                actual=end,
            )

    def _need(self, end: int, what: str) -> None:
        missing = end - len(self._buffer)
        if missing <= 0:
            return
        self._need_room(end - self.position, what)
        try:
            self._buffer += self._handle.read(max(missing, CHUNK_BYTES))
        except OSError as error:
            raise ArtifactNotFoundError(
                f"{self.path} cannot be read: {error.strerror}", path=str(self.path), hint="check the disk and the file"
            ) from error
        if end > len(self._buffer):
            raise self.fail(
                "truncated", f"the file shrank while {what} was read", expected=end, actual=len(self._buffer)
            )
