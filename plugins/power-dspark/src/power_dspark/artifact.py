"""The contract of a DSpark draft: a block draft with a Markov head, and a confidence head when a key says so.

Both keys have to exist: a driver that guesses them reads other rows than the draft was trained for.

Source: the loader and graph of llama.cpp at the pinned commit (``src/models/dflash.cpp``); power_reference.md
section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from power_core.artifacts.block_checks import PREFIX, check_block_draft, claims_kind
from power_core.artifacts.block_tensors import BlockSizes, TensorRule, vector
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.key_checks import ArchitectureKeys
from power_core.artifacts.pairing import PAIR_PREFIX, check_block_pair
from power_core.artifacts.validation import CheckList, ValidationReport

KIND = "dspark"
OWN_KEYS = ("sample_from_anchor", "has_confidence_head")
MARKOV = ("markov_w1.weight", "markov_w2.weight")
CONFIDENCE = "conf_proj.weight"


class DsparkValidator:
    """Validates DSpark drafts (``power_core.artifacts.DraftValidator``)."""

    kind = KIND
    describe = "a DSpark draft: a DFlash block whose rows are chained by a Markov head"

    def matches(self, header: GgufHeader) -> bool:
        """True for a draft of the family with a key or tensor of a Markov or confidence head."""
        return claims_kind(header, KIND)

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check keys, tensors and tokenizer. Never raises for what a file holds."""
        checks = CheckList(PREFIX)
        check_block_draft(header, KIND, checks, own_keys=OWN_KEYS, own_state=_own_state)
        return checks.report(KIND, header.path)

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        """Check a valid draft against its target. Never raises for what the files hold."""
        checks = CheckList(PAIR_PREFIX)
        check_block_pair(target, draft, checks)
        return checks.report(KIND, draft.path)


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
