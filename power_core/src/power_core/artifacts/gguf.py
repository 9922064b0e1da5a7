"""A bounded scan of GGUF headers: safe on any file, reads no tensor data.

The ``gguf`` package's reader trusts what a file declares; a file of 43 bytes can keep it busy for ever. This scan
checks every count, length, offset and type before it is used, so a hostile file costs neither time nor memory.

Source: power_reference.md section 4.7.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.artifacts.byte_reader import HeaderReader
from power_core.artifacts.tensor_table import TensorInfo, check_extents, read_tensor_table
from power_core.artifacts.values import UNSIGNED_TYPES, MetadataValue, StringArray, ValueType
from power_core.artifacts.wording import shorten
from power_core.errors import ArtifactContractError, ArtifactFormatError, ArtifactNotFoundError

__all__ = ["GgufHeader", "StringArray", "TensorInfo", "ValueType", "scan_header"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_ENTRIES = 65_536
DEFAULT_ALIGNMENT = 32
ALIGNMENTS = tuple(1 << power for power in range(5, 17))
"""Less than 32 ends the process when the library maps the file; nothing needs more than a page."""


@attrs.frozen(kw_only=True)
class GgufHeader:
    """Everything before the tensor data of one GGUF file, checked.

    Attributes:
        path: The file.
        version: GGUF version, 2 or 3.
        file_bytes: Size of the file.
        data_offset_bytes: Start of the tensor data.
        alignment: Alignment of the tensor data, a power of two.
        metadata: Values by key. Number arrays are tuples, string arrays are ``StringArray``.
        tensors: Tensors by name, in file order.
        types: Stored type of every value: ``(type, None)`` or ``(ARRAY, element type)``.
    """

    path: Path
    version: int
    file_bytes: int
    data_offset_bytes: int
    alignment: int
    metadata: Mapping[str, MetadataValue] = attrs.field(repr=False)
    tensors: Mapping[str, TensorInfo] = attrs.field(repr=False)
    types: Mapping[str, tuple[ValueType, ValueType | None]] = attrs.field(repr=False)

    @property
    def architecture(self) -> str:
        """The value of ``general.architecture``.

        Raises:
            ArtifactContractError: the key is missing, not a string, or empty.
        """
        name: str = self.require("general.architecture", ValueType.STRING)
        if not name:
            raise self._broken("gguf.key_value", "general.architecture is empty", expected="a name", actual=name)
        return name

    @property
    def nextn_layers(self) -> int:
        """Layers that predict further tokens, from ``<any prefix>.nextn_predict_layers``; 0 when no such key exists.

        Raises:
            ArtifactContractError: a value is not an unsigned integer, or two keys disagree.
        """
        keys = [key for key in self.metadata if key.endswith(".nextn_predict_layers")]
        values = {int(self.require(key, *UNSIGNED_TYPES)) for key in keys}
        if len(values) > 1:
            raise self._broken(
                "gguf.key_value", f"the keys {keys} disagree", expected="one value", actual=sorted(values)
            )
        return values.pop() if values else 0

    def value_type(self, key: str) -> ValueType:
        """Return the stored type of a value, ``ARRAY`` for arrays. Raises ``ArtifactContractError`` when absent."""
        self._present(key)
        return self.types[key][0]

    def element_type(self, key: str) -> ValueType | None:
        """Return the element type of an array, None for a single value; ``ArtifactContractError`` when absent."""
        self._present(key)
        return self.types[key][1]

    def get(self, key: str) -> MetadataValue | None:
        """Return a value, or None when the key is absent."""
        return self.metadata.get(key)

    def require(self, key: str, *types: ValueType) -> Any:
        """Return a value that must exist and, when types are given, be stored as one of them.

        Raises:
            ArtifactContractError: absent, or of another type.
        """
        found = self.value_type(key)
        if types and found not in types:
            raise self._wrong_type(key, found.name, types)
        return self.metadata[key]

    def require_array(self, key: str, *element_types: ValueType) -> Any:
        """Return an array that must exist and have one of the element types.

        Returns:
            A tuple of numbers, or a ``StringArray``.

        Raises:
            ArtifactContractError: absent, not an array, or of another element type.
        """
        element = self.element_type(key)
        if element is None:
            raise self._wrong_type(key, self.types[key][0].name, element_types, array=True)
        if element_types and element not in element_types:
            raise self._wrong_type(key, f"array of {element.name}", element_types, array=True)
        return self.metadata[key]

    def arch_key(self, suffix: str) -> str:
        """Return the key ``<architecture>.<suffix>``."""
        return f"{self.architecture}.{suffix}"

    def _present(self, key: str) -> None:
        if key not in self.metadata:
            raise self._broken("gguf.key_missing", f"the key {key!r} is missing", expected=key)

    def _wrong_type(
        self, key: str, found: str, types: tuple[ValueType, ...], *, array: bool = False
    ) -> ArtifactContractError:
        names = " or ".join(item.name for item in types)
        expected = f"array of {names}".removesuffix(" of ") if array else names
        return self._broken(
            "gguf.key_type",
            f"the key {key!r} is stored as {found}, expected {expected}",
            expected=expected,
            actual=found,
        )

    def _broken(
        self, check_id: str, message: str, *, expected: object = None, actual: object = None
    ) -> ArtifactContractError:
        return ArtifactContractError(
            shorten(f"{self.path}: {message}"),
            path=str(self.path),
            check_id=check_id,
            expected=expected,
            actual=actual,
            hint="convert the model again with a converter that writes this key",
        )


def scan_header(path: Path) -> GgufHeader:
    """Read and check the header of a GGUF file. Time and memory are bounded whatever the file holds.

    Raises:
        ArtifactNotFoundError: the path is absent, not a regular file, or cannot be read.
        ArtifactFormatError: the bytes are not a GGUF this version reads; ``check_id`` names the broken rule.
    """
    path = Path(path)
    file_bytes = regular_file_bytes(path)
    try:
        with path.open("rb") as handle:
            return _scan(HeaderReader(handle, path, file_bytes))
    except OSError as error:
        raise _not_found(path, f"{path} cannot be read: {error.strerror}") from error


def regular_file_bytes(path: Path) -> int:
    """Return a file's size.

    Raises:
        ArtifactNotFoundError: the path is absent or not a regular file.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise _not_found(path, f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _not_found(path, f"{str(path)!r} is not a usable path: {error}") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise _not_found(path, f"{path} is {kind}, expected a GGUF file")
    return status.st_size


def _not_found(path: Path, message: str) -> ArtifactNotFoundError:
    return ArtifactNotFoundError(
        message, path=str(path), expected="a readable GGUF file", hint="check the path and its permissions"
    )


def _scan(reader: HeaderReader) -> GgufHeader:
    _read_magic(reader)
    version = _read_version(reader)
    tensor_count = _read_count(reader, "tensors", 24)
    pair_count = _read_count(reader, "metadata pairs", 13)
    metadata: dict[str, MetadataValue] = {}
    types: dict[str, tuple[ValueType, ValueType | None]] = {}
    for index in range(pair_count):
        _read_pair(reader, index, metadata, types)
    alignment = _alignment(reader, metadata, types)
    tensors = read_tensor_table(reader, tensor_count)
    data_offset_bytes = reader.position + ((-reader.position) % alignment if tensors else 0)
    check_extents(reader, tensors, data_offset_bytes, alignment)
    return GgufHeader(
        path=reader.path,
        version=version,
        file_bytes=reader.file_bytes,
        data_offset_bytes=data_offset_bytes,
        alignment=alignment,
        metadata=metadata,
        tensors=tensors,
        types=types,
    )


def _read_magic(reader: HeaderReader) -> None:
    if reader.file_bytes == 0:
        raise reader.fail("empty", "the file is empty", expected="a GGUF file", actual=0)
    found = reader.raw(min(4, reader.file_bytes), "the magic")
    if found == MAGIC[::-1]:
        raise _big_endian(reader, found)
    if found != MAGIC:
        start = found + reader.raw(min(12, reader.file_bytes - len(found)), "the first bytes")
        raise reader.fail(
            "magic",
            f"not a GGUF file (starts with {start!r})",
            expected=MAGIC,
            actual=found,
            hint="give the .gguf file of a model; other formats must be converted first",
        )


def _read_version(reader: HeaderReader) -> int:
    version = reader.u32("the version")
    if version in VERSIONS:
        return version
    if version == 1:
        raise reader.fail("version_1", "GGUF version 1 is no longer supported", expected=VERSIONS, actual=1)
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *VERSIONS):
        raise _big_endian(reader, version)
    raise reader.fail(
        "version",
        f"unknown GGUF version {version}",
        expected=VERSIONS,
        actual=version,
        hint="the file is damaged or needs a newer version of this program",
    )


def _big_endian(reader: HeaderReader, found: object) -> ArtifactFormatError:
    return reader.fail(
        "big_endian",
        "the file is big-endian, which is not supported here",
        expected="little-endian",
        actual=found,
        hint=f"convert it to little-endian first (this machine is {sys.byteorder}-endian)",
    )


def _read_count(reader: HeaderReader, what: str, entry_bytes: int) -> int:
    """Read a count and refuse one that the rest of the file cannot hold; an entry has at least ``entry_bytes``."""
    count = reader.u64(f"the number of {what}")
    limit = min(MAX_ENTRIES, reader.file_bytes // entry_bytes)
    if count > limit:
        raise reader.fail(
            "count",
            f"the header declares {count} {what}, more than {limit}",
            expected=f"at most {MAX_ENTRIES}, and no more than fit into {reader.file_bytes} bytes",
            actual=count,
        )
    return count


def _read_pair(
    reader: HeaderReader,
    index: int,
    metadata: dict[str, MetadataValue],
    types: dict[str, tuple[ValueType, ValueType | None]],
) -> None:
    what = f"the key of metadata pair {index}"
    key = reader.text(what)
    reader.charge_entry(what)
    if not key:
        raise reader.fail("key_empty", f"metadata pair {index} has an empty key", expected="a name", actual=key)
    if key in metadata:
        raise reader.fail("key_duplicate", f"the key {key[:200]!r} occurs twice", actual=key)
    what = f"the value of {key[:200]!r}"
    value_type = _read_type(reader, what)
    if value_type is not ValueType.ARRAY:
        metadata[key] = _read_scalar(reader, value_type, what)
        types[key] = (value_type, None)
        return
    element_type = _read_type(reader, what)
    if element_type is ValueType.ARRAY:
        raise reader.fail("array_nested", f"{what} is an array of arrays", expected="an array of single values")
    count = reader.array_count(what)
    is_text = element_type is ValueType.STRING
    metadata[key] = reader.strings(count, what) if is_text else reader.numbers(element_type, count, what)
    types[key] = (ValueType.ARRAY, element_type)


def _read_type(reader: HeaderReader, what: str) -> ValueType:
    type_id = reader.u32(f"the type of {what}")
    try:
        return ValueType(type_id)
    except ValueError:
        raise reader.fail(
            "value_type", f"{what} has unknown value type id {type_id}", expected="0 to 12", actual=type_id
        ) from None


def _read_scalar(reader: HeaderReader, value_type: ValueType, what: str) -> MetadataValue:
    if value_type is ValueType.STRING:
        return reader.text(what)
    return reader.numbers(value_type, 1, what)[0]


def _alignment(
    reader: HeaderReader,
    metadata: Mapping[str, MetadataValue],
    types: Mapping[str, tuple[ValueType, ValueType | None]],
) -> int:
    key = "general.alignment"
    if key not in metadata:
        return DEFAULT_ALIGNMENT
    value, stored = metadata[key], types[key][0]
    if stored is ValueType.UINT32 and isinstance(value, int) and value in ALIGNMENTS:
        return value
    raise reader.fail(
        "alignment",
        f"general.alignment is {'' if stored is ValueType.ARRAY else f'{value!r} '}stored as {stored.name}",
        expected=f"a power of two from {ALIGNMENTS[0]} to {ALIGNMENTS[-1]}, stored as UINT32",
        actual=value,
    )
