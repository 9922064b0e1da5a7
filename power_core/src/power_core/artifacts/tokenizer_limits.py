"""What each tokenizer of the native library needs of its tokens, beyond well-formed tables.

Source: the tokenizers of llama.cpp at the pinned commit. Those with a trie recurse once per byte of a token, so a long
one ends the process; the others are studied too, and a tokenizer that is not in the table is refused.
"""

from __future__ import annotations

import re

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.validation import CheckList
from power_core.artifacts.values import StringArray

MAX_TOKEN_BYTES = {
    "gpt2": 65_536,
    "gemma4": 65_536,
    "llama": 65_536,
    "bert": 4_096,
    "t5": 4_096,
    "rwkv": 4_096,
    "plamo2": 1_024,
}
"""Longest token by ``tokenizer.ggml.model``. Building the table of ``plamo2`` takes cubic time in the length."""

INSERTED = {
    "gpt2": (("bos", "add_bos_token", True, 11),),
    "gemma4": (("bos", None, True, None),),
    "llama": (("bos", "add_bos_token", True, 1), ("eos", "add_eos_token", False, 2)),
    "bert": (("bos", None, True, 101), ("seperator", None, True, 102)),
    "t5": (("eos", "add_eos_token", True, 1),),
}
"""Tokens that the library puts around a text: name, the flag that decides, its default, and the default id."""

BYTE_TOKEN = 6
PREFIX = "tokenizer.ggml"
MODEL_KEY, TOKENS_KEY, TYPES_KEY = (f"{PREFIX}.{name}" for name in ("model", "tokens", "token_type"))

_BYTE_SPELLING = re.compile(rb"\\x([0-9a-f]{2})|\\([^x])|([^\\])", re.DOTALL)
_NAMED_BYTES = {b"t": 9, b"n": 10, b"r": 13}


def check_model_limits(header: GgufHeader, checks: CheckList, model: str, tokens: StringArray) -> None:
    """Add the checks of one tokenizer; one that is not known is refused by name."""
    known = checks.add(
        "tokenizer_known",
        model in MAX_TOKEN_BYTES,
        f"{MODEL_KEY} is {model!r}",
        expected=f"one of {', '.join(MAX_TOKEN_BYTES)}",
        actual=model,
    )
    if not known:
        return
    _check_lengths(checks, tokens, MAX_TOKEN_BYTES[model])
    _check_inserted(header, checks, model, len(tokens))
    if model == "bert":
        _check_no_byte_tokens(header, checks)
    if model == "rwkv":
        _check_single_bytes(checks, tokens)


def _check_lengths(checks: CheckList, tokens: StringArray, most_bytes: int) -> None:
    lengths = tokens.lengths_bytes()
    longest = int(lengths.argmax())
    longest_bytes = int(lengths[longest])
    checks.add(
        "tokenizer_token_bytes",
        longest_bytes <= most_bytes,
        f"the longest token of {TOKENS_KEY}, {longest}, has {longest_bytes} bytes",
        expected=f"at most {most_bytes} bytes",
        actual=longest_bytes,
    )


def _check_inserted(header: GgufHeader, checks: CheckList, model: str, tokens: int) -> None:
    """A default id outside the vocabulary counts as none, and a token without id ends the process when inserted."""
    for name, flag, default_flag, default_id in INSERTED.get(model, ()):
        asked = header.get(f"{PREFIX}.{flag}") if flag else True
        inserted = asked if isinstance(asked, bool) else default_flag
        key = f"{PREFIX}.{name}_token_id"
        if not inserted or key in header.metadata:
            continue
        checks.add(
            f"{name}_token_inserted",
            default_id is not None and default_id < tokens,
            f"the tokenizer {model!r} inserts the token of {key}, which is missing; its default is {default_id}",
            expected=f"{key}, or a default below {tokens}",
            actual=default_id,
        )


def _check_no_byte_tokens(header: GgufHeader, checks: CheckList) -> None:
    types = header.get(TYPES_KEY)
    found = [token for token, kind in enumerate(types) if kind == BYTE_TOKEN] if isinstance(types, tuple) else []
    checks.add(
        "tokenizer_byte_tokens",
        not found,
        f"tokens of type BYTE in {TYPES_KEY}: {found[:8]}",
        expected="none: the tokenizer 'bert' has no byte tokens",
        actual=found[:8],
    )


def _check_single_bytes(checks: CheckList, tokens: StringArray) -> None:
    """Without a token for some byte, the tokenizer never moves past it."""
    present = {_single_byte(token) for token in tokens.iter_raw() if len(token) <= 4}
    missing = [byte for byte in range(256) if byte not in present]
    checks.add(
        "tokenizer_single_bytes",
        not missing,
        f"{len(missing)} bytes have no token of their own in {TOKENS_KEY}: {missing[:8]}",
        expected="a token for every single byte",
        actual=missing[:8],
    )


def _single_byte(token: bytes) -> int | None:
    """Return the byte that an escaped token stands for, None when it stands for more."""
    match = _BYTE_SPELLING.fullmatch(token)
    if match is None:
        return None
    digits, name, plain = match.groups()
    if digits is not None:
        return int(digits, 16)
    return _NAMED_BYTES.get(name, name[0]) if name is not None else int(plain[0])
