"""The contract of a DSpark draft: a block draft with a Markov head, and a confidence head when a key says so.

Both keys have to exist: a driver that guesses them reads other rows than the draft was trained for.

Source: the loader and graph of llama.cpp at the pinned commit (``src/models/dflash.cpp``); power_reference.md
section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from power_core.artifacts import BlockDraftValidator
from power_core.artifacts.block_tensors import BlockSizes, TensorRule, vector
from power_core.artifacts.key_checks import ArchitectureKeys
from power_dspark.config import STRATEGY

MARKOV = ("markov_w1.weight", "markov_w2.weight")
CONFIDENCE = "conf_proj.weight"


def _own_state(keys: ArchitectureKeys, sizes: BlockSizes) -> Iterator[TensorRule]:
    keys.flag("sample_from_anchor")
    declared = keys.flag("has_confidence_head")
    tensors = keys.header.tensors
    if declared is not None:
        keys.checks.add(
            "confidence_head",
            declared == (CONFIDENCE in tensors),
            f"'{keys.name('has_confidence_head')}' is {declared}, '{CONFIDENCE}' "
            f"{'exists' if CONFIDENCE in tensors else 'is missing'}",
            expected="both or neither",
            actual=(declared, CONFIDENCE in tensors),
        )
    rank = next((tensors[name].shape[0] for name in MARKOV if name in tensors), 1)
    for name, rows in zip(MARKOV, (sizes.vocabulary, sizes.draft_vocabulary), strict=True):
        yield TensorRule(name, (rank, rows))
    yield vector("markov_w2.scale", 1, required=False)
    yield TensorRule(CONFIDENCE, (sizes.hidden + rank, 1), required=False)
    if CONFIDENCE in tensors:
        yield vector("conf_proj.bias", 1, required=False)


VALIDATOR = BlockDraftValidator(
    kind=STRATEGY,
    describe="a DSpark draft: a DFlash block whose rows are chained by a Markov head",
    own_keys=("sample_from_anchor", "has_confidence_head"),
    own_state=_own_state,
)
