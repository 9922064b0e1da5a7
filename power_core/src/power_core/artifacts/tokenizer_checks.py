"""Checks of the tokenizer tables in a header: element types, lengths, special ids, merges."""

from __future__ import annotations

import re

import numpy as np

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.tokenizer_limits import check_model_limits
from power_core.artifacts.validation import CheckList
from power_core.artifacts.values import StringArray, ValueType, count_repeated
from power_core.errors import ArtifactContractError

BYTE_PAIR_MODELS = ("gpt2", "gemma4")
MODELS_WITH_DEFAULT_IDS = ("llama", "bert")
MERGES_OPTIONAL_FOR = ("kimi-k2",)
SPECIAL_IDS = ("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask")
PREFIX = "tokenizer.ggml"
MAX_TOKENS = 1 << 19

_MERGE = re.compile(rb"[^\0][^\0 ]* ")


def check_tokenizer(header: GgufHeader, checks: CheckList) -> None:
    """Add the tokenizer's checks. The spelling ``seperator`` is the one that files use."""
    model = _value(header, checks, "model", ValueType.STRING)
    tokens = _tokens(header, checks)
    if tokens is None:
        return
    _check_parallel(header, checks, "token_type", len(tokens), ValueType.INT32)
    _check_parallel(header, checks, "scores", len(tokens), ValueType.FLOAT32, ValueType.INT32)
    if model in BYTE_PAIR_MODELS:
        _check_merges(header, checks)
    if isinstance(model, str):
        check_model_limits(header, checks, model, tokens)
    for name in SPECIAL_IDS:
        _check_special_id(header, checks, name, len(tokens))
    for flag, name in (("add_bos_token", "bos"), ("add_eos_token", "eos")):
        _check_flag(header, checks, flag, name, model)


def _value(header: GgufHeader, checks: CheckList, name: str, value_type: ValueType) -> object:
    try:
        value = header.require(f"{PREFIX}.{name}", value_type)
    except ArtifactContractError as error:
        checks.add_error(f"tokenizer_{name}", error, header.path)
        return None
    checks.add(f"tokenizer_{name}", True, f"{PREFIX}.{name} is {value!r}", actual=value)
    return value


def _array(header: GgufHeader, checks: CheckList, name: str, *element_types: ValueType) -> object:
    try:
        return header.require_array(f"{PREFIX}.{name}", *element_types)
    except ArtifactContractError as error:
        checks.add_error(f"tokenizer_{name}", error, header.path)
        return None


def _tokens(header: GgufHeader, checks: CheckList) -> StringArray | None:
    tokens = _array(header, checks, "tokens", ValueType.STRING)
    if not isinstance(tokens, StringArray):
        return None
    repeated = _count_repeated(tokens) if len(tokens) <= MAX_TOKENS else 0
    passed = checks.add(
        "tokenizer_tokens",
        0 < len(tokens) <= MAX_TOKENS and repeated == 0,
        f"{len(tokens)} tokens, {repeated} of them repeated",
        expected=f"1 to {MAX_TOKENS} tokens, all different",
        actual=(len(tokens), repeated),
    )
    return tokens if passed else None


def _count_repeated(tokens: StringArray) -> int:
    """Count by hash, in little memory: two different tokens of half a million share one in 1 of 10^7 files.

    The library reads a token up to its first NUL, and gives an empty one a name, which another may have.
    """
    seen = (token.partition(b"\0")[0] or b"[EMPTY_%d]" % index for index, token in enumerate(tokens.iter_raw()))
    return count_repeated(np.fromiter(map(hash, seen), np.int64, len(tokens)))


def _check_parallel(header: GgufHeader, checks: CheckList, name: str, tokens: int, *element_types: ValueType) -> None:
    """An optional array that the library reads beside the tokens, element by element."""
    if f"{PREFIX}.{name}" not in header.metadata:
        return
    values = _array(header, checks, name, *element_types)
    if isinstance(values, tuple):
        checks.add(
            f"tokenizer_{name}",
            len(values) >= tokens,
            f"{PREFIX}.{name} has {len(values)} elements for {tokens} tokens",
            expected=f"at least {tokens}",
            actual=len(values),
        )


def _check_merges(header: GgufHeader, checks: CheckList) -> None:
    optional = header.get(f"{PREFIX}.pre") in MERGES_OPTIONAL_FOR
    if optional and f"{PREFIX}.merges" not in header.metadata:
        return
    merges = _array(header, checks, "merges", ValueType.STRING)
    if not isinstance(merges, StringArray):
        return
    broken = next((i for i, merge in enumerate(merges.iter_raw()) if not _MERGE.match(merge)), None)
    checks.add(
        "tokenizer_merges",
        broken is None,
        f"{len(merges)} merges" if broken is None else f"merge {broken} has no separator: {merges[broken]!r}",
        expected="two parts separated by a space",
        actual=None if broken is None else merges[broken],
    )


def _check_special_id(header: GgufHeader, checks: CheckList, name: str, tokens: int) -> None:
    key = f"{PREFIX}.{name}_token_id"
    if key not in header.metadata:
        return
    try:
        value: int = header.require(key, ValueType.UINT32)
    except ArtifactContractError as error:
        checks.add_error(f"{name}_token_id", error, header.path)
        return
    checks.add(
        f"{name}_token_id",
        value < tokens,
        f"{key} is {value} of {tokens} tokens",
        expected=f"below {tokens}",
        actual=value,
    )


def _check_flag(header: GgufHeader, checks: CheckList, flag: str, name: str, model: object) -> None:
    """A flag that asks for a token whose id is unknown makes the library abort or insert an arbitrary token."""
    if f"{PREFIX}.{flag}" not in header.metadata:
        return
    value = _value(header, checks, flag, ValueType.BOOL)
    if value is True and model not in MODELS_WITH_DEFAULT_IDS:
        key = f"{PREFIX}.{name}_token_id"
        checks.add(f"{flag}_id", key in header.metadata, f"{flag} is true, so {key} must exist", expected=key)
