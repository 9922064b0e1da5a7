"""The contract that all kinds of block drafts share: one architecture, its keys, its tensors, its tokenizer.

::

    features (inputs of the target's layers) -> fc -> enc.output_norm -> key/value rows of every block
    anchor, mask, mask, ... -> embeddings -> blk.0 .. blk.N-1 -> output_norm -> head -> the kind's own choice

The library takes much of this for granted and ends the process, or drafts nonsense, on a file that breaks it.

Source: the loader, the graphs and the converters of llama.cpp at the pinned commit (``src/models/dflash.cpp``,
``src/llama-model.cpp``, ``conversion/qwen.py``, ``conversion/gemma.py``); its driver in ``common/speculative.cpp``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from power_core.artifacts.block_keys import KNOWN_KEYS, check_keys
from power_core.artifacts.block_layout import MASK_KEY
from power_core.artifacts.block_tensors import BlockSizes, TensorRule, check_tensors, check_values, family_rules
from power_core.artifacts.draft_vocabulary import check_draft_vocabulary
from power_core.artifacts.fixed_types import check_fixed_types
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.key_checks import ArchitectureKeys
from power_core.artifacts.roles import BLOCK_ARCHITECTURE, dflash_kinds, kind_marks
from power_core.artifacts.tokenizer_checks import check_tokenizer
from power_core.artifacts.validation import CheckList

PREFIX = "block"
BACKBONE_KEY = "hyper_connection.count"

OwnState = Callable[[ArchitectureKeys, BlockSizes], Iterable[TensorRule]]


def check_block_draft(
    header: GgufHeader,
    kind: str,
    checks: CheckList,
    *,
    own_keys: tuple[str, ...] = (),
    own_state: OwnState | None = None,
) -> None:
    """Add every check that the kinds share. A plugin passes what its kind has beyond that; all else is refused.

    Args:
        header: The file.
        kind: Kind that the file is to be checked as.
        checks: Gets the checks.
        own_keys: Keys of the kind, without the architecture's name.
        own_state: ``own_state(keys, sizes)`` adds the checks of those keys and returns the rules of the kind's tensors.
            Called when the sizes that shapes follow from are known.
    """
    if not _check_file(header, kind, checks):
        return
    keys = ArchitectureKeys(header, BLOCK_ARCHITECTURE, checks)
    _check_known(keys, own_keys)
    sizes = check_keys(keys)
    check_fixed_types(header, checks)
    check_tokenizer(header, checks)
    _check_mask(header, checks)
    if sizes is None:
        return
    rules = [*family_rules(header, sizes), *(own_state(keys, sizes) if own_state else ())]
    check_values(header, sizes.blocks, checks)
    check_draft_vocabulary(header, sizes, checks)
    check_tensors(header, rules, checks)


def claims_kind(header: GgufHeader, kind: str) -> bool:
    """True when a file of the family carries the marks of a kind; ``dflash`` is the kind without marks."""
    return header.get("general.architecture") == BLOCK_ARCHITECTURE and kind in dflash_kinds(header)


def _check_file(header: GgufHeader, kind: str, checks: CheckList) -> bool:
    """Check what decides whether the other checks make sense."""
    architecture = header.get("general.architecture")
    kinds = dflash_kinds(header)
    marks = [mark for other in kinds if other != kind for mark in kind_marks(header, other)]
    shown = f": it has {', '.join(marks[:4])}" if marks else ""
    backbone = f"{BLOCK_ARCHITECTURE}.{BACKBONE_KEY}"
    return (
        checks.add(
            "architecture",
            architecture == BLOCK_ARCHITECTURE,
            f"general.architecture is {architecture!r}",
            expected=BLOCK_ARCHITECTURE,
            actual=architecture,
        )
        and checks.add(
            "single_file",
            header.get("split.count") in (None, 1),
            f"split.count is {header.get('split.count')}",
            expected="a draft in one file",
            actual=header.get("split.count"),
        )
        and checks.add(
            "kind",
            kinds == (kind,),
            f"the file is a draft of kind {' and '.join(kinds)}{shown}",
            expected=kind,
            actual=kinds,
        )
        and checks.add(
            "backbone",
            header.get(backbone) in (None, 0),
            f"'{backbone}' is {header.get(backbone)}: drafts with the backbone of DeepSeek-V4 are not supported",
            expected="a dense attention backbone",
            actual=header.get(backbone),
        )
    )


def _check_known(keys: ArchitectureKeys, own_keys: tuple[str, ...]) -> None:
    prefix = f"{keys.architecture}."
    known = {keys.name(suffix) for suffix in (*KNOWN_KEYS, BACKBONE_KEY, *own_keys)}
    unknown = [key for key in keys.header.metadata if key.startswith(prefix) and key not in known]
    keys.checks.add(
        "unknown_keys",
        not unknown,
        f"keys of no known meaning: {', '.join(unknown[:8]) or 'none'}",
        expected="no key of an unsupported feature; none is ignored",
        actual=unknown[:8],
    )


def _check_mask(header: GgufHeader, checks: CheckList) -> None:
    """The tokenizer's checks cover its value."""
    present = MASK_KEY in header.metadata
    checks.add(
        "mask_token",
        present,
        f"the key '{MASK_KEY}' {'exists' if present else 'is missing: the rows after the anchor have no token'}",
        expected=MASK_KEY,
    )
