"""Whether a draft belongs to a target: equal tokens, equal widths, layers that the target has.

A draft trained on another tokenizer or another width loads without a complaint and proposes noise; one that names a
layer beyond the target's ends the process.

Source: the driver in ``common/speculative.cpp`` of llama.cpp at the pinned commit; power_reference.md section 4.5.
"""

from __future__ import annotations

import re

from power_core.artifacts.block_layout import TOKENS_KEY, read_block_layout
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.validation import CheckList
from power_core.artifacts.values import StringArray, ValueType
from power_core.errors import ArtifactContractError

PAIR_PREFIX = "pair"
TOKENIZER_KEYS = {
    "tokenizer_model": "model",
    "pre_tokenizer": "pre",
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "add_bos_token": "add_bos_token",
    "add_eos_token": "add_eos_token",
}

_PADDING = re.compile(rb"\[PAD\d*\]|<pad\d*>|<\|?(?:unused|reserved|extra|dummy)[\w-]*\|?>", re.IGNORECASE)


def check_tokenizer_pair(target: GgufHeader, draft: GgufHeader, checks: CheckList) -> None:
    """Check that every token id means the same in both files. A key absent in one file differs from every value."""
    for name, suffix in TOKENIZER_KEYS.items():
        key = f"tokenizer.ggml.{suffix}"
        wanted, found = target.get(key), draft.get(key)
        checks.add(
            name,
            wanted == found,
            f"'{key}' is {_shown(wanted)} in the target and {_shown(found)} in the draft",
            expected=wanted,
            actual=found,
        )
    try:
        tokens: StringArray = target.require_array(TOKENS_KEY, ValueType.STRING)
        drafted: StringArray = draft.require_array(TOKENS_KEY, ValueType.STRING)
    except ArtifactContractError as error:
        checks.add_error("tokens", error, draft.path)
        return
    _check_tokens(tokens, drafted, checks)


def check_block_pair(target: GgufHeader, draft: GgufHeader, checks: CheckList) -> None:
    """Check what a block draft reads of the target: rows of its own width, from layers inside the trunk."""
    try:
        layout = read_block_layout(draft)
        hidden: int = target.require(target.arch_key("embedding_length"), ValueType.UINT32)
        blocks: int = target.require(target.arch_key("block_count"), ValueType.UINT32)
        trunk_blocks = blocks - target.nextn_layers
    except ArtifactContractError as error:
        checks.add_error("layout", error, draft.path)
        return
    checks.add(
        "hidden_width",
        layout.hidden == hidden,
        f"the draft's hidden rows are {layout.hidden} wide, the target's {hidden}",
        expected=hidden,
        actual=layout.hidden,
    )
    layers = layout.target_layers
    checks.add(
        "target_layer_last",
        trunk_blocks not in layers,
        f"the draft reads the inputs of layers {layers}; the target has layers 0 to {trunk_blocks - 1}"
        f"{f', so {trunk_blocks} would be the output of the last' if trunk_blocks in layers else ''}",
        expected=f"below {trunk_blocks}",
        actual=layers,
    )
    beyond = [layer for layer in layers if layer > trunk_blocks]
    checks.add(
        "target_layer_range",
        not beyond,
        f"the draft reads the inputs of layers {layers}; the target has layers 0 to {trunk_blocks - 1}",
        expected=f"below {trunk_blocks}",
        actual=beyond,
    )


def _shown(value: object) -> str:
    return "absent" if value is None else repr(value)


def _check_tokens(target: StringArray, draft: StringArray, checks: CheckList) -> None:
    """Equal vocabularies are equal bytes; only different ones are looked at token by token."""
    counts = len(target), len(draft)
    checks.add(
        "token_count",
        counts[0] == counts[1],
        f"the target has {counts[0]} tokens, the draft {counts[1]}{_padding_note(target, draft)}",
        expected=counts[0],
        actual=counts[1],
    )
    if target.data == draft.data:
        checks.add("token_text", True, f"all {counts[0]} tokens are equal")
        return
    pairs = zip(target.iter_raw(), draft.iter_raw(), strict=False)
    first = next((token for token, (left, right) in enumerate(pairs) if left != right), None)
    message = f"the first {min(counts)} tokens are equal"
    if first is not None:
        message = f"token {first} is {target[first]!r} in the target and {draft[first]!r} in the draft"
    checks.add(
        "token_text",
        first is None,
        message,
        expected=None if first is None else target[first],
        actual=None if first is None else draft[first],
    )


def _padding_note(target: StringArray, draft: StringArray) -> str:
    shorter, longer = sorted((target, draft), key=len)
    if len(shorter) == len(longer) or not longer.data.startswith(shorter.data):
        return ""
    added = [longer.raw(token) for token in range(len(shorter), len(longer))]
    if not all(_PADDING.fullmatch(token) for token in added):
        return ""
    return f"; they differ by padding only ({added[0].decode(errors='replace')!r} and so on), convert both alike"
