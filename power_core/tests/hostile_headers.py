"""Bytes that are no GGUF, or one that lies about itself: each with its fault in words and the check that refuses it."""

from __future__ import annotations

import struct

import attrs

from power_core.artifacts.byte_reader import MAX_ARRAY_ELEMENTS, MAX_STRING_BYTES
from power_core.artifacts.gguf import MAX_ENTRIES
from power_core.artifacts.values import ValueType
from power_core.testing.headers import GgufBytes, minimal_target, text

U8, U32, U64, STRING, ARRAY = ValueType.UINT8, ValueType.UINT32, ValueType.UINT64, ValueType.STRING, ValueType.ARRAY
GOOD, BARE = minimal_target(), GgufBytes()
HUGE = {"2p63": 2**63, "2p62": 2**62, "2p32": 2**32}


@attrs.frozen
class HostileBytes:
    """One file: kebab-case name, what is wrong, the check's name behind ``gguf.``, the bytes."""

    name: str
    fault: str
    check: str
    content: bytes | GgufBytes

    def build(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.build()


def array_pair(key: str, element_type: int, count: int, body: bytes = b"") -> GgufBytes:
    """A header whose last pair is an array given by its bytes."""
    return BARE.with_raw_pair(text(key), ARRAY, struct.pack("<IQ", element_type, count) + body)


def nested(depth: int) -> bytes:
    """The types and counts of arrays that hold one array each."""
    return struct.pack("<IQ", ARRAY, 1) * depth + struct.pack("<IQ", U8, 0)


STARTS = (
    HostileBytes("empty-file", "no bytes", "empty", b""),
    HostileBytes("two-bytes", "shorter than its magic", "magic", b"GG"),
    HostileBytes("text-file", "a text", "magic", b"# A text file\nwith lines\n"),
    HostileBytes("zip-file", "an archive", "magic", b"PK\x03\x04" + bytes(60)),
    HostileBytes("magic-reversed", "magic in big-endian order", "big_endian", b"FUGG" + bytes(60)),
    HostileBytes("magic-alone", "ends after its magic", "truncated", b"GGUF"),
    HostileBytes("version-0", "version 0", "version", attrs.evolve(GOOD, version=0)),
    HostileBytes("version-1", "version 1, which has 32-bit counts", "version_1", attrs.evolve(GOOD, version=1)),
    HostileBytes("version-4", "version 4", "version", attrs.evolve(GOOD, version=4)),
    HostileBytes("version-7-shifted", "version 7 * 2^24", "version", attrs.evolve(GOOD, version=7 << 24)),
    *(
        HostileBytes(
            f"version-{v}-big-endian", f"version {v} * 2^24", "big_endian", attrs.evolve(GOOD, version=v << 24)
        )
        for v in (1, 2, 3)
    ),
    HostileBytes(
        "all-big-endian", "version 3, all of it big-endian", "big_endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    ),
)

COUNTS = tuple(
    case
    for shown, count in (*HUGE.items(), (str(MAX_ENTRIES + 1), MAX_ENTRIES + 1))
    for case in (
        HostileBytes(f"pairs-{shown}", f"{shown} metadata pairs", "count", attrs.evolve(GOOD, pair_count=count)),
        HostileBytes(f"tensors-{shown}", f"{shown} tensors", "count", attrs.evolve(GOOD, tensor_count=count)),
    )
)

LENGTHS = (
    *(
        HostileBytes(f"{place}-of-{shown}-bytes", f"{place} of {shown} bytes", "string_length", content)
        for shown, count in (*HUGE.items(), (str(MAX_STRING_BYTES + 1), MAX_STRING_BYTES + 1))
        for place, content in (
            ("key", BARE.with_raw_pair(text("k", length=count), U32, b"")),
            ("value", BARE.with_raw_pair(text("k"), STRING, text("v", length=count))),
            ("token", array_pair("k", STRING, 1, text("", length=count))),
        )
    ),
    HostileBytes(
        "tensor-name-of-2p63-bytes",
        "tensor name of 2^63 bytes",
        "string_length",
        attrs.evolve(BARE, tensors=(text("t", length=2**63),)),
    ),
    HostileBytes(
        "key-longer-than-file",
        "a key longer than the file",
        "truncated",
        BARE.with_raw_pair(text("k", length=999), U32, b""),
    ),
    HostileBytes(
        "value-longer-than-file",
        "a value longer than the file",
        "truncated",
        BARE.with_raw_pair(text("k"), STRING, text("value", length=1 << 20)),
    ),
    HostileBytes(
        "token-longer-than-file",
        "a token longer than the file",
        "truncated",
        array_pair("k", STRING, 2, text("", length=99) + bytes(20)),
    ),
    *(
        HostileBytes(f"array-of-{shown}", f"array of {shown} elements", "array_length", array_pair("k", U32, count))
        for shown, count in (*HUGE.items(), (str(MAX_ARRAY_ELEMENTS + 1), MAX_ARRAY_ELEMENTS + 1))
    ),
    HostileBytes(
        "b106-43-bytes", "array of 2^63 elements, cut to 43 bytes", "truncated", array_pair("a", U8, 2**63).build()[:43]
    ),
    HostileBytes("b106-49-bytes", "array of 2^63 elements in 49 bytes", "array_length", array_pair("a", U8, 2**63)),
    HostileBytes(
        "numbers-longer-than-file",
        "numbers beyond the end of the file",
        "truncated",
        array_pair("k", U32, MAX_ARRAY_ELEMENTS),
    ),
    HostileBytes(
        "strings-longer-than-file",
        "strings beyond the end of the file",
        "truncated",
        array_pair("k", STRING, MAX_ARRAY_ELEMENTS),
    ),
    HostileBytes(
        "string-array-one-short",
        "one string fewer than declared",
        "truncated",
        BARE.with_array("k", STRING, ["a"], count=2),
    ),
    HostileBytes("array-of-arrays", "2^62 nested arrays", "array_nested", array_pair("k", ARRAY, 2**62)),
    HostileBytes(
        "arrays-10000-deep",
        "arrays nested 10,000 deep",
        "array_nested",
        BARE.with_raw_pair(text("k"), ARRAY, nested(10_000)),
    ),
)

PAIRS = (
    HostileBytes("key-empty", "an empty key", "key_empty", GOOD.with_value("", U32, 1)),
    HostileBytes(
        "key-twice", "a key that occurs twice", "key_duplicate", GOOD.with_value("k", U32, 1).with_value("k", U32, 1)
    ),
    HostileBytes("key-not-utf8", "a key that is not UTF-8", "utf8", BARE.with_value(b"k\xff", U32, 1)),
    HostileBytes(
        "key-cut-character", "a key that ends inside a character", "utf8", BARE.with_value(b"k\xe2\x82", U32, 1)
    ),
    HostileBytes("key-surrogate", "a key with an encoded surrogate", "utf8", BARE.with_value(b"k\xed\xa0\x80", U32, 1)),
    HostileBytes("key-nul", "a key with NUL, where the library stops reading", "nul", BARE.with_value("k\0x", U32, 1)),
    HostileBytes("value-not-utf8", "a value that is not UTF-8", "utf8", BARE.with_value("k", STRING, b"\xff")),
    HostileBytes(
        "architecture-nul",
        "an architecture with NUL, where the library stops reading",
        "nul",
        GOOD.without("general.architecture").with_value("general.architecture", STRING, "qwen3\0x"),
    ),
    HostileBytes("value-type-13", "value type 13", "value_type", BARE.with_raw_pair(text("k"), 13, bytes(8))),
    HostileBytes("element-type-99", "an array of type 99", "value_type", array_pair("k", 99, 1)),
    HostileBytes(
        "boolean-2", "a boolean with the byte 2", "bool", BARE.with_raw_pair(text("k"), ValueType.BOOL, b"\x02")
    ),
    *(
        HostileBytes(
            f"alignment-{shown}", f"alignment {shown}", "alignment", GOOD.with_value("general.alignment", U32, value)
        )
        for shown, value in (("0", 0), ("3", 3), ("16", 16), ("48", 48), ("2p17", 2**17), ("2p31", 2**31))
    ),
    HostileBytes(
        "alignment-uint64", "alignment stored as UINT64", "alignment", GOOD.with_value("general.alignment", U64, 64)
    ),
    HostileBytes(
        "alignment-array", "alignment stored as an array", "alignment", GOOD.with_array("general.alignment", U32, [32])
    ),
)

TENSORS = (
    HostileBytes("tensor-name-empty", "a tensor without name", "tensor_name", GOOD.with_tensor("")),
    HostileBytes("tensor-name-64-bytes", "a tensor name of 64 bytes", "tensor_name", GOOD.with_tensor("x" * 64)),
    HostileBytes("tensor-name-not-utf8", "a tensor name that is not UTF-8", "utf8", GOOD.with_tensor(b"\xc3")),
    HostileBytes(
        "tensor-name-nul", "a tensor name with NUL, where the library stops reading", "nul", GOOD.with_tensor("t\0x")
    ),
    HostileBytes(
        "tensor-twice", "a tensor name that occurs twice", "tensor_duplicate", GOOD.with_tensor("t").with_tensor("t")
    ),
    HostileBytes("tensor-missing", "one tensor fewer than declared", "tensor_name", attrs.evolve(GOOD, tensor_count=3)),
    HostileBytes("tensor-0-dims", "a tensor without dimensions", "tensor_dims", GOOD.with_tensor("t", ())),
    HostileBytes("tensor-5-dims", "a tensor of five dimensions", "tensor_dims", GOOD.with_tensor("t", (1,) * 5)),
    HostileBytes(
        "tensor-2p32-dims",
        "2^32 - 1 dimensions",
        "tensor_dims",
        attrs.evolve(BARE, tensors=(text("t") + struct.pack("<I", 2**32 - 1) + bytes(64),)),
    ),
    HostileBytes("tensor-dim-0", "a dimension of 0", "tensor_shape", GOOD.with_tensor("t", (32, 0))),
    HostileBytes(
        "tensor-dim-2p63",
        "a dimension that is negative in the library",
        "tensor_shape",
        GOOD.with_tensor("t", (2**63,)),
    ),
    HostileBytes(
        "tensor-product-2p64",
        "2^32 x 2^32 elements, 0 when wrapped",
        "tensor_size",
        GOOD.with_tensor("t", (2**32, 2**32)),
    ),
    HostileBytes(
        "tensor-product-wraps-to-32",
        "elements that wrap to 32",
        "tensor_size",
        GOOD.with_tensor("t", (2**5, 2**32 + 1, 2**32, 1)),
    ),
    HostileBytes("tensor-bytes-wrap", "2^62 elements of four bytes", "tensor_size", GOOD.with_tensor("t", (2**61, 2))),
    HostileBytes(
        "tensor-end-wraps", "offset + size above 2^63", "tensor_size", GOOD.with_tensor("t", (32,), offset_bytes=2**63)
    ),
    HostileBytes(
        "tensor-end-2p64",
        "offset + size that wraps to 96",
        "tensor_size",
        GOOD.with_tensor("t", (32,), offset_bytes=2**64 - 32),
    ),
    HostileBytes("tensor-type-4", "a type that was removed", "tensor_type", GOOD.with_tensor("t", (32,), 4)),
    HostileBytes("tensor-type-200", "type 200", "tensor_type", GOOD.with_tensor("t", (32,), 200)),
    HostileBytes("tensor-row-of-48", "Q8_0 with rows of 48", "tensor_block", GOOD.with_tensor("t", (48,), 8)),
    HostileBytes("tensor-row-of-128", "Q4_K with rows of 128", "tensor_block", GOOD.with_tensor("t", (128,), 12)),
    HostileBytes("tensor-gap", "a gap before a tensor", "tensor_offset", BARE.with_tensor("t", (32,), offset_bytes=64)),
    HostileBytes(
        "tensor-unaligned",
        "an offset that is not aligned",
        "tensor_offset",
        BARE.with_tensor("t").with_tensor("u", offset_bytes=130),
    ),
    HostileBytes(
        "tensors-overlap",
        "two tensors at one place",
        "tensor_offset",
        BARE.with_tensor("t").with_tensor("u", offset_bytes=0),
    ),
    HostileBytes(
        "tensor-beyond-file", "tensor data beyond the end of the file", "truncated", GOOD.with_tensor("t", (2**40,))
    ),
    HostileBytes("data-cut", "the last byte of the data is missing", "truncated", attrs.evolve(GOOD, missing_bytes=1)),
    HostileBytes("data-absent", "no data at all", "truncated", attrs.evolve(GOOD, missing_bytes=GOOD.data_bytes)),
)

FILES = (*STARTS, *COUNTS, *LENGTHS, *PAIRS, *TENSORS)
