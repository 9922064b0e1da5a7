"""Reads a GGUF header front to back from an open file, and never trusts a length that the file declares."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import BinaryIO

from power_core.artifacts.values import LENGTH_BYTES, STRUCT_CODES, StringArray, ValueType
from power_core.artifacts.wording import shorten
from power_core.errors import ArtifactFormatError, ArtifactNotFoundError

MAX_STRING_BYTES = 1 << 20
MAX_ARRAY_ELEMENTS = 1_000_000
MAX_HEADER_BYTES = 24 << 20
MAX_MEMORY_BYTES = 44 << 20
"""What values and tensors may take, string arrays without their text: twice the need of 262,144 tokens."""

NUMBER_BYTES = 40
SMALL_NUMBER_BYTES = 8
CHARACTER_BYTES = 4
END_BYTES = 8
ENTRY_BYTES = 512
CHUNK_BYTES = 256 << 10

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class HeaderReader:
    """A cursor over the first bytes of a file. Reads in chunks, at most ``MAX_HEADER_BYTES`` and one chunk in all.

    Bytes that were consumed are dropped, and every value is charged to ``MAX_MEMORY_BYTES``. Every failure is an
    ``ArtifactFormatError`` whose ``check_id`` starts with ``gguf.``.
    """

    def __init__(self, handle: BinaryIO, path: Path, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes
        self.position = 0
        self._handle = handle
        self._buffer = bytearray()
        self._buffer_start = 0
        self._memory_left_bytes = MAX_MEMORY_BYTES

    def fail(
        self, check_id: str, message: str, *, expected: object = None, actual: object = None, hint: str = ""
    ) -> ArtifactFormatError:
        """Build the error for this file; the caller raises it."""
        return ArtifactFormatError(
            shorten(f"{self.path}: {message}"),
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
        self._need(self.position + size_bytes, what)
        start = self.position - self._buffer_start
        self.position += size_bytes
        return bytes(memoryview(self._buffer)[start : start + size_bytes])

    def text(self, what: str) -> str:
        """Read a length-prefixed string: valid UTF-8 without NUL, which ends it where the native library reads it."""
        length_bytes = self.u64(f"the length of {what}")
        self._check_string_length(length_bytes, what)
        data = self.raw(length_bytes, what)
        self._charge(length_bytes * CHARACTER_BYTES, what)
        if b"\0" in data:
            raise self.fail("nul", f"{what} contains NUL at byte {data.index(0)}", expected="text without NUL")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("utf8", f"{what} is not valid UTF-8 at byte {error.start}", actual=data[:32]) from error

    def numbers(self, value_type: ValueType, count: int, what: str) -> tuple[int | float | bool, ...]:
        """Read ``count`` values of one fixed-size type."""
        form = struct.Struct(f"<{count}{STRUCT_CODES[value_type]}")
        self._need_room(form.size, what)
        self._charge(count * (SMALL_NUMBER_BYTES if form.size == count else NUMBER_BYTES), what)
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
        self._charge(count * END_BYTES, what)
        self._drop_consumed()
        buffer, length_at = self._buffer, _U64.unpack_from
        position, have = 0, len(buffer)
        ends = array("Q")
        for _ in range(count):
            if position + LENGTH_BYTES > have:
                have = self._need(self.position + position + LENGTH_BYTES, what)
            length_bytes: int = length_at(buffer, position)[0]
            position += LENGTH_BYTES + length_bytes
            if length_bytes > MAX_STRING_BYTES or position > have:
                self._check_string_length(length_bytes, f"string {len(ends)} of {what}")
                have = self._need(self.position + position, what)
            ends.append(position)
        self.position += position
        return StringArray(data=bytes(memoryview(buffer)[:position]), ends=ends)

    def charge_entry(self, what: str) -> None:
        """Charge one metadata pair or tensor to the header's memory."""
        self._charge(ENTRY_BYTES, what)

    def array_count(self, what: str) -> int:
        """Read an array's element count."""
        count = self.u64(f"the length of {what}")
        if count > MAX_ARRAY_ELEMENTS:
            raise self.fail(
                "array_length",
                f"{what} declares {count} elements",
                expected=f"at most {MAX_ARRAY_ELEMENTS}",
                actual=count,
            )
        return count

    def _charge(self, size_bytes: int, what: str) -> None:
        self._memory_left_bytes -= size_bytes
        if self._memory_left_bytes < 0:
            raise self.fail(
                "header_memory",
                f"{what} brings the header above {MAX_MEMORY_BYTES} bytes of memory",
                expected=f"at most {MAX_MEMORY_BYTES} bytes for all values and tensors",
            )

    def _drop_consumed(self) -> None:
        del self._buffer[: self.position - self._buffer_start]
        self._buffer_start = self.position

    def _unpack(self, form: struct.Struct, what: str) -> int:
        end = self.position + form.size
        self._need(end, what)
        value: int = form.unpack_from(self._buffer, self.position - self._buffer_start)[0]
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

    def _need(self, end: int, what: str) -> int:
        """Have the file's bytes up to ``end`` in the buffer, and return the buffer's length."""
        missing = end - self._buffer_start - len(self._buffer)
        if missing <= 0:
            return len(self._buffer)
        self._need_room(end - self.position, what)
        self._drop_consumed()
        try:
            self._buffer += self._handle.read(max(missing, CHUNK_BYTES))
        except OSError as error:
            raise ArtifactNotFoundError(
                f"{self.path} cannot be read: {error.strerror}", path=str(self.path), hint="check the disk and the file"
            ) from error
        if end > self._buffer_start + len(self._buffer):
            raise self.fail(
                "truncated",
                f"the file shrank while {what} was read",
                expected=end,
                actual=self._buffer_start + len(self._buffer),
            )
        return len(self._buffer)
