"""The tensor table of a GGUF: names, shapes, types, and the proof that every tensor lies inside the file."""

from __future__ import annotations

from functools import cache

import attrs

from power_core.artifacts.byte_reader import HeaderReader

MAX_DIMS = 4
MAX_NAME_BYTES = 63
MAX_SIZE = 2**63 - 1


@attrs.frozen
class TensorType:
    """Storage of one tensor type: ``block_bytes`` bytes hold ``block_elements`` elements."""

    name: str
    block_elements: int
    block_bytes: int


@attrs.frozen(kw_only=True)
class TensorInfo:
    """One entry of the table.

    Attributes:
        name: Tensor name.
        shape: Elements per dimension in ggml order: ``shape[0]`` is contiguous in memory.
        type_name: For instance ``F32`` or ``Q4_K``.
        offset_bytes: Start inside the data section (add ``GgufHeader.data_offset_bytes`` for the file).
        size_bytes: Bytes of the tensor, without padding.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset_bytes: int
    size_bytes: int


@cache
def tensor_types() -> dict[int, TensorType]:
    """Return the known tensor types by id: those of the ``gguf`` package and Q2_0, which it does not list yet."""
    from gguf import GGML_QUANT_SIZES

    known = {int(key): TensorType(key.name, elements, size) for key, (elements, size) in GGML_QUANT_SIZES.items()}
    known.setdefault(42, TensorType("Q2_0", 64, 18))
    return known


def read_tensor_table(reader: HeaderReader, count: int) -> dict[str, TensorInfo]:
    """Read ``count`` entries.

    Raises:
        ArtifactFormatError: a name is empty, too long or repeated; a shape, type or size is not representable.
    """
    tensors: dict[str, TensorInfo] = {}
    for index in range(count):
        tensor = _read_tensor(reader, index)
        if tensor.name in tensors:
            raise reader.fail("tensor_duplicate", f"tensor {tensor.name!r} occurs twice", actual=tensor.name)
        tensors[tensor.name] = tensor
    return tensors


def check_extents(reader: HeaderReader, tensors: dict[str, TensorInfo], data_offset_bytes: int, alignment: int) -> None:
    """Check that the tensors follow each other without gap or overlap and end inside the file.

    Raises:
        ArtifactFormatError: the first tensor that starts at another place, or that sticks out of the file.
    """
    end = 0
    outside: TensorInfo | None = None
    for tensor in tensors.values():
        if tensor.offset_bytes != end:
            raise reader.fail(
                "tensor_offset",
                f"tensor {tensor.name!r} starts at offset {tensor.offset_bytes} of the data, expected {end}",
                expected=end,
                actual=tensor.offset_bytes,
            )
        last = end + tensor.size_bytes
        if outside is None and data_offset_bytes + last > reader.file_bytes:
            outside = tensor
        end = last + (-last) % alignment
    if outside is not None:
        needed = data_offset_bytes + last
        raise reader.fail(
            "truncated",
            f"the file ends inside tensor {outside.name!r}: all tensors need {needed} bytes, "
            f"the file has {reader.file_bytes}",
            expected=needed,
            actual=reader.file_bytes,
            hint="the download or copy is incomplete; fetch the file again",
        )


def _read_tensor(reader: HeaderReader, index: int) -> TensorInfo:
    what = f"the name of tensor {index}"
    name = reader.text(what)
    reader.charge_entry(what)
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise reader.fail(
            "tensor_name",
            f"tensor {index} has a name of {len(name.encode())} bytes: {name[:80]!r}",
            expected=f"1 to {MAX_NAME_BYTES} bytes",
            actual=len(name.encode()),
        )
    shape = _read_shape(reader, name)
    kind = _read_type(reader, name, shape)
    size_bytes = _count_elements(reader, name, shape) // kind.block_elements * kind.block_bytes
    offset_bytes = reader.u64(f"the offset of tensor {name!r}")
    if offset_bytes + size_bytes > MAX_SIZE:
        raise reader.fail(
            "tensor_size",
            f"tensor {name!r} with shape {shape} and offset {offset_bytes} ends beyond 2^63 - 1 bytes",
            actual=offset_bytes + size_bytes,
        )
    return TensorInfo(name=name, shape=shape, type_name=kind.name, offset_bytes=offset_bytes, size_bytes=size_bytes)


def _read_shape(reader: HeaderReader, name: str) -> tuple[int, ...]:
    dims = reader.u32(f"the dimension count of tensor {name!r}")
    if not 1 <= dims <= MAX_DIMS:
        raise reader.fail(
            "tensor_dims", f"tensor {name!r} declares {dims} dimensions", expected=f"1 to {MAX_DIMS}", actual=dims
        )
    shape = tuple(reader.u64(f"dimension {axis} of tensor {name!r}") for axis in range(dims))
    if not all(1 <= extent <= MAX_SIZE for extent in shape):
        raise reader.fail(
            "tensor_shape", f"tensor {name!r} has shape {shape}", expected="every dimension 1 to 2^63 - 1", actual=shape
        )
    return shape


def _read_type(reader: HeaderReader, name: str, shape: tuple[int, ...]) -> TensorType:
    type_id = reader.u32(f"the type of tensor {name!r}")
    kind = tensor_types().get(type_id)
    if kind is None:
        raise reader.fail(
            "tensor_type",
            f"tensor {name!r} has unknown ggml type id {type_id}",
            expected="a type id this version knows",
            actual=type_id,
            hint="the file may need a newer version, or it is damaged",
        )
    if shape[0] % kind.block_elements:
        raise reader.fail(
            "tensor_block",
            f"tensor {name!r} of type {kind.name} has {shape[0]} elements per row",
            expected=f"a multiple of {kind.block_elements}",
            actual=shape[0],
        )
    return kind


def _count_elements(reader: HeaderReader, name: str, shape: tuple[int, ...]) -> int:
    elements = 1
    for extent in shape:
        elements *= extent
    if elements > MAX_SIZE:
        raise reader.fail(
            "tensor_size", f"tensor {name!r} with shape {shape} has more than 2^63 - 1 elements", actual=shape
        )
    return elements
