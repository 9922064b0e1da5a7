"""Which tokens a block draft can propose: all, or those that ``d2t`` lists.

``d2t`` holds the target's id of every row of the draft's own output matrix, as I64. Training code keeps offsets
instead (id of row i = i + offset); converters of the pinned llama.cpp write ids, and a file with offsets would draft
other tokens, or write outside the row of logits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from power_core.artifacts.block_layout import HEAD, MAPPING
from power_core.artifacts.block_tensors import MAPPING_TYPES, BlockSizes
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.tensor_table import TensorInfo
from power_core.artifacts.validation import CheckList
from power_core.artifacts.values import count_repeated

_OFFSETS = ": the values look like offsets (id = row + value), which training code writes; convert the draft again"


def check_draft_vocabulary(header: GgufHeader, sizes: BlockSizes, checks: CheckList) -> None:
    """Check that every row of the draft's own output matrix stands for one token. Reads the values of ``d2t``."""
    head, mapping = header.tensors.get(HEAD), header.tensors.get(MAPPING)
    if mapping is not None:
        if mapping.type_name in MAPPING_TYPES:
            read_token_ids(header, mapping, sizes.vocabulary, checks)
        checks.add(
            "d2t_head",
            head is not None,
            f"'{HEAD}' {'exists' if head else 'is missing'}, beside '{MAPPING}'",
            expected=f"an output matrix of {sizes.draft_vocabulary} rows",
        )
    if head is not None and len(head.shape) == 2:
        source = f"'{MAPPING}' has {sizes.draft_vocabulary} values" if mapping else f"there is no '{MAPPING}'"
        checks.add(
            "head_rows",
            head.shape[1] == sizes.draft_vocabulary,
            f"'{HEAD}' has {head.shape[1]} rows, {source}, and the vocabulary has {sizes.vocabulary} tokens",
            expected=sizes.draft_vocabulary,
            actual=head.shape[1],
        )


def read_token_ids(
    header: GgufHeader, mapping: TensorInfo, vocabulary: int, checks: CheckList
) -> NDArray[np.int64] | None:
    """Read a tensor of type I64 that gives every row its token; checks length, range and that no token occurs twice.

    Returns:
        The ids, right or wrong, or None when there are too many or they cannot be read.
    """
    length = mapping.shape[0]
    usable = checks.add(
        "d2t_length",
        len(mapping.shape) == 1 and length <= vocabulary,
        f"'{MAPPING}' has shape {mapping.shape}, for {vocabulary} tokens",
        expected=f"1 to {vocabulary} values",
        actual=mapping.shape,
    )
    ids = _read_ids(header, mapping, checks) if usable else None
    if ids is None:
        return None
    hint = _OFFSETS if _look_like_offsets(ids, vocabulary) else ""
    outside = np.flatnonzero((ids < 0) | (ids >= vocabulary))
    first = f"row {outside[0]} stands for {ids[outside[0]]}" if outside.size else "every row stands for a token"
    checks.add(
        "d2t_range",
        outside.size == 0,
        f"'{MAPPING}': {first}, of {vocabulary} tokens{hint if outside.size else ''}",
        expected=f"0 to {vocabulary - 1}",
        actual=int(ids[outside[0]]) if outside.size else None,
    )
    repeated = count_repeated(ids)
    checks.add(
        "d2t_repeated",
        repeated == 0,
        f"'{MAPPING}': {repeated} of {length} values occur before{hint if repeated else ''}",
        expected="different ids",
        actual=repeated,
    )
    return ids


def _read_ids(header: GgufHeader, mapping: TensorInfo, checks: CheckList) -> NDArray[np.int64] | None:
    """Read at most eight bytes a token; the scan has bounded the vocabulary."""
    start = header.data_offset_bytes + mapping.offset_bytes
    try:
        ids = np.fromfile(header.path, dtype="<i8", count=mapping.shape[0], offset=start)
    except OSError as error:
        checks.add("d2t_read", False, f"'{MAPPING}' cannot be read: {error.strerror}")
        return None
    complete = checks.add(
        "d2t_read",
        ids.size == mapping.shape[0],
        f"'{MAPPING}': {ids.size} of {mapping.shape[0]} values could be read",
        expected=mapping.shape[0],
        actual=ids.size,
    )
    return ids.astype(np.int64) if complete else None


def _look_like_offsets(values: NDArray[np.int64], vocabulary: int) -> bool:
    """True when the values would be right as offsets; asked only where they are wrong as ids."""
    inside = (values >= -vocabulary) & (values < vocabulary)
    ids = values + np.arange(values.size)
    return bool(inside.all() and ((ids >= 0) & (ids < vocabulary)).all() and not count_repeated(ids))
