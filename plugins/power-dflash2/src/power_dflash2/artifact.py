"""The contract of a DFlash2 draft: a block draft with dynamic convolutions and a selector lattice.

One row of the lattice holds T ids and T x T scores in a row of the hidden width E, so E >= T (T + 1). Ids travel as
float32, exact below 2^24; every tokenizer is checked to be smaller.

Source: the loader and graph of llama.cpp at the pinned commit (``src/models/dflash.cpp``); power_reference.md
section 4.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from power_core.artifacts import BlockDraftValidator
from power_core.artifacts.block_tensors import BlockSizes, TensorRule
from power_core.artifacts.key_checks import ArchitectureKeys
from power_core.artifacts.tensor_checks import VECTOR_TYPES
from power_dflash2.config import STRATEGY

MOST_TAPS = 64
MOST_CANDIDATES = 1024
MOST_WIDTH = 1 << 24


def _own_state(keys: ArchitectureKeys, sizes: BlockSizes) -> Iterator[TensorRule]:
    taps = keys.required("conv_kernel_size", MOST_TAPS)
    group = keys.required("conv_group_size", MOST_WIDTH)
    rank = keys.required("selector_rank", MOST_WIDTH)
    candidates = keys.required("selector_top_k", MOST_CANDIDATES)
    if candidates is not None:
        _check_lattice(keys, sizes, candidates)
    if rank is not None:
        yield from _selector(sizes, rank)
    if taps is None or group is None:
        return
    divided = keys.checks.add(
        "conv_groups",
        sizes.hidden % group == 0,
        f"{keys.name('conv_group_size')} is {group}, {keys.name('embedding_length')} is {sizes.hidden}",
        expected="a divisor of the embedding length",
        actual=group,
    )
    if divided:
        yield from _convolutions(sizes, taps, group)


def _check_lattice(keys: ArchitectureKeys, sizes: BlockSizes, candidates: int) -> None:
    needed = candidates * (candidates + 1)
    keys.checks.add(
        "lattice_width",
        needed <= sizes.hidden,
        f"a lattice row of {candidates} candidates takes {needed} values, a hidden row has {sizes.hidden}",
        expected=f"at least {needed} values",
        actual=sizes.hidden,
    )
    keys.checks.add(
        "lattice_candidates",
        candidates <= sizes.draft_vocabulary,
        f"{keys.name('selector_top_k')} is {candidates} of {sizes.draft_vocabulary} tokens",
        expected=f"at most {sizes.draft_vocabulary}",
        actual=candidates,
    )


def _selector(sizes: BlockSizes, rank: int) -> Iterator[TensorRule]:
    yield TensorRule("selector_predecessor.weight", (rank, sizes.vocabulary))
    yield TensorRule("selector_successor.weight", (rank, sizes.vocabulary))
    yield TensorRule("selector_hidden.weight", (sizes.hidden, rank))


def _convolutions(sizes: BlockSizes, taps: int, group: int) -> Iterator[TensorRule]:
    """The base is added to the projected coefficients, so it has to be F32."""
    for block in range(sizes.blocks):
        for place in ("attn", "ffn"):
            name = f"blk.{block}.{place}_conv"
            yield TensorRule(f"{name}_base", (sizes.hidden, taps, 2), VECTOR_TYPES)
            yield TensorRule(f"{name}_proj.weight", (sizes.hidden, 2 * taps * (sizes.hidden // group)))


VALIDATOR = BlockDraftValidator(
    kind=STRATEGY,
    describe="a DFlash2 draft: a DFlash block with dynamic convolutions, read through a selector lattice",
    own_keys=("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"),
    own_state=_own_state,
)
