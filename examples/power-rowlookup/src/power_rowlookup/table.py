"""The file: directions that make a code of a hidden row, and for each code the tokens that followed it in some text."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import attrs
import numpy as np
from gguf import GGUFValueType, GGUFWriter
from numpy.typing import NDArray

from power_core.artifacts import GgufHeader, StringArray, ValueType
from power_core.errors import ArtifactContractError

ARCHITECTURE = "rowlookup"
HIDDEN_KEY, LAYER_KEY, BITS_KEY = (
    f"{ARCHITECTURE}.{name}" for name in ("embedding_length", "target_layer", "code_bits")
)
DIRECTIONS, FOLLOWING = "directions.weight", "following.weight"
MOST_BITS = 16
Number = TypeVar("Number", np.float32, np.int32)
NOTHING = -1
"""Stands in the table where the text had nothing."""


@attrs.frozen(kw_only=True)
class Layout:
    """What the header says.

    Attributes:
        hidden: Width of the target's hidden rows.
        layer: Layer of the target whose input rows are looked up.
        bits: Bits of a code.
    """

    hidden: int
    layer: int
    bits: int


def read_layout(header: GgufHeader) -> Layout:
    """Read the keys; none of them has a default.

    Raises:
        ArtifactContractError: a key is missing or of another type, or the code is too wide.
    """
    hidden, layer, bits = (header.require(key, ValueType.UINT32) for key in (HIDDEN_KEY, LAYER_KEY, BITS_KEY))
    if not 1 <= bits <= MOST_BITS:
        raise ArtifactContractError(
            f"{header.path}: {BITS_KEY!r} is {bits}, expected 1 to {MOST_BITS}",
            path=str(header.path),
            check_id="rowlookup.code_bits",
            expected=f"1..{MOST_BITS}",
            actual=bits,
            hint="make the table anew with `python -m power_rowlookup.learn`",
        )
    return Layout(hidden=hidden, layer=layer, bits=bits)


def most_drafts(header: GgufHeader) -> int:
    """Return how many tokens the table has for a code.

    Raises:
        ArtifactContractError: there is no table, or an empty one.
    """
    found = header.tensors.get(FOLLOWING)
    if found is None or len(found.shape) != 2 or found.shape[0] < 1:
        shape = None if found is None else found.shape
        raise ArtifactContractError(
            f"{header.path}: {FOLLOWING!r} has shape {shape}, expected (drafts, codes)",
            path=str(header.path),
            check_id="rowlookup.following",
            expected="two dimensions",
            actual=shape,
        )
    return found.shape[0]


class Table:
    """The weights of a file that was checked.

    Raises:
        ArtifactContractError: the table holds a token that the target does not have.
    """

    def __init__(self, header: GgufHeader, n_vocab: int) -> None:
        layout = read_layout(header)
        drafts, codes = most_drafts(header), 2**layout.bits
        self._directions = _read(header, DIRECTIONS, np.float32).reshape(layout.bits, layout.hidden)
        self._following = _read(header, FOLLOWING, np.int32).reshape(codes, drafts)
        self._place_values = 1 << np.arange(layout.bits)
        highest = int(self._following.max())
        if highest >= n_vocab or int(self._following.min()) < NOTHING:
            raise ArtifactContractError(
                f"{header.path}: the table holds token {highest}, the target has {n_vocab} tokens",
                path=str(header.path),
                check_id="rowlookup.token_range",
                expected=f"{NOTHING}..{n_vocab - 1}",
                actual=highest,
            )

    def code(self, row: NDArray[np.float32]) -> int:
        """Return the code of one hidden row.

        Row by row and without a matrix product: a product of several rows rounds in another way than one of a single
        row, and a sign may flip with the number of rows that arrive together.
        """
        products = (self._directions * row).sum(axis=1)
        return int(((products > 0) * self._place_values).sum())

    def following(self, code: int) -> list[int]:
        """Return the tokens of a code, as far as the text had any."""
        tokens: list[int] = self._following[code].tolist()
        return tokens[: tokens.index(NOTHING)] if NOTHING in tokens else tokens


def write_table(
    path: Path, target: GgufHeader, layer: int, directions: NDArray[np.float32], following: NDArray[np.int32]
) -> Path:
    """Write a file for a target, with the target's own tokenizer.

    Args:
        path: Where to write.
        target: Header of the target.
        layer: Layer whose input rows are looked up.
        directions: float32[bits, hidden].
        following: int32[2**bits, drafts], ``NOTHING`` where there is none.
    """
    writer = GGUFWriter(path, ARCHITECTURE)
    writer.add_uint32(HIDDEN_KEY, directions.shape[1])
    writer.add_uint32(LAYER_KEY, layer)
    writer.add_uint32(BITS_KEY, directions.shape[0])
    for key, value in target.metadata.items():
        if key.startswith("tokenizer."):
            stored, element = target.types[key]
            values = list(value.iter_raw()) if isinstance(value, StringArray) else value
            sub_type = None if element is None else GGUFValueType(element)
            writer.add_key_value(key, values, GGUFValueType(stored), sub_type)
    writer.add_tensor(DIRECTIONS, directions)
    writer.add_tensor(FOLLOWING, following)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def random_directions(bits: int, hidden: int, seed: int = 0) -> NDArray[np.float32]:
    """Return directions, float32[bits, hidden]."""
    return np.random.default_rng(seed).standard_normal((bits, hidden)).astype(np.float32)


def _read(header: GgufHeader, name: str, kind: type[Number]) -> NDArray[Number]:
    tensor = header.tensors[name]
    elements = tensor.size_bytes // np.dtype(kind).itemsize
    return np.fromfile(header.path, kind, elements, offset=header.data_offset_bytes + tensor.offset_bytes)
