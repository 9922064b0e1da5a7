"""What each tokenizer needs of its tokens: known models, lengths, byte tokens, single bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.artifacts.gguf import ValueType, scan_header
from power_core.artifacts.target_checks import check_target
from power_core.artifacts.tokenizer_limits import MAX_TOKEN_BYTES
from power_core.testing.headers import GgufBytes

SINGLE_BYTES = [repr(bytes([byte]))[2:-1].encode() for byte in range(256)]
WORDS: list[bytes] = [b"a", b"b", b"ab", b"<end>"]


def failed(
    folder: Path,
    model: str,
    tokens: list[bytes],
    *,
    types: list[int] | None = None,
    merges: bool = True,
    ids: tuple[str, ...] = ("bos", "eos", "seperator"),
    flags: dict[str, bool] | None = None,
) -> dict[str, str]:
    content = GgufBytes().with_value("general.architecture", ValueType.STRING, "llama")
    for suffix, value in (("context_length", 64), ("embedding_length", 32), ("block_count", 1)):
        content = content.with_value(f"llama.{suffix}", ValueType.UINT32, value)
    content = (
        content.with_value("llama.attention.head_count", ValueType.UINT32, 2)
        .with_value("tokenizer.ggml.model", ValueType.STRING, model)
        .with_array("tokenizer.ggml.tokens", ValueType.STRING, tokens)
        .with_tensor("token_embd.weight", (32, len(tokens)))
        .with_tensor("blk.0.attn_norm.weight", (32,))
    )
    if merges:
        content = content.with_array("tokenizer.ggml.merges", ValueType.STRING, ["a b"])
    for name in ids:
        content = content.with_value(f"tokenizer.ggml.{name}_token_id", ValueType.UINT32, 0)
    for name, value in (flags or {}).items():
        content = content.with_value(f"tokenizer.ggml.{name}", ValueType.BOOL, value)
    if types is not None:
        content = content.with_array("tokenizer.ggml.token_type", ValueType.INT32, types)
    path = folder / "m.gguf"
    path.write_bytes(content.build())
    return {check.id.removeprefix("target."): check.message for check in check_target(scan_header(path)).failures}


@pytest.mark.parametrize("model", MAX_TOKEN_BYTES)
def test_known_tokenizers_pass_up_to_their_longest_token(tmp_path: Path, model: str):
    words = [*SINGLE_BYTES, b"ab"] if model == "rwkv" else WORDS
    most = MAX_TOKEN_BYTES[model]
    assert failed(tmp_path, model, [*words, b"x" * most]) == {}
    message = failed(tmp_path, model, [*words, b"x" * (most + 1)])["tokenizer_token_bytes"]
    assert message == f"the longest token of tokenizer.ggml.tokens, {len(words)}, has {most + 1} bytes"


@pytest.mark.parametrize("model", ["none", "no_vocab", "test", "whitespace", "hybriddna", "", "GPT2", "replit"])
def test_other_tokenizers_are_refused_by_name(tmp_path: Path, model: str):
    assert failed(tmp_path, model, WORDS)["tokenizer_known"] == f"tokenizer.ggml.model is {model!r}"


@pytest.mark.parametrize("model", ["gpt2", "gemma4"])
def test_byte_pair_tokenizers_need_merges(tmp_path: Path, model: str):
    assert "'tokenizer.ggml.merges' is missing" in failed(tmp_path, model, WORDS, merges=False)["tokenizer_merges"]


def test_bert_has_no_byte_tokens(tmp_path: Path):
    types = [1, 6, 1, 3]
    found = failed(tmp_path, "bert", WORDS, types=types)
    assert found == {"tokenizer_byte_tokens": "tokens of type BYTE in tokenizer.ggml.token_type: [1]"}
    assert failed(tmp_path, "bert", WORDS, types=[1, 1, 1, 3]) == {}
    assert failed(tmp_path, "llama", WORDS, types=types) == {}


def test_rwkv_needs_a_token_for_every_byte(tmp_path: Path):
    assert failed(tmp_path, "rwkv", [b"<s>", *SINGLE_BYTES, b"ab"]) == {}
    short = [token for byte, token in enumerate(SINGLE_BYTES) if byte not in (0, 92, 200)]
    found = failed(tmp_path, "rwkv", short)["tokenizer_single_bytes"]
    assert found == "3 bytes have no token of their own in tokenizer.ggml.tokens: [0, 92, 200]"


@pytest.mark.parametrize("spelling", [b"\\", b"\\x4", b"\\xfg", b"\\x5C5C", b"ab", b"\\x"])
def test_rwkv_spellings_that_are_no_single_byte(tmp_path: Path, spelling: bytes):
    tokens = [spelling, *(token for byte, token in enumerate(SINGLE_BYTES) if byte != 92)]
    assert "[92]" in failed(tmp_path, "rwkv", tokens)["tokenizer_single_bytes"]


@pytest.mark.parametrize("spelling", [b"\xff", b"\\\xff", b"\\xff"])
def test_rwkv_spellings_of_one_byte(tmp_path: Path, spelling: bytes):
    assert failed(tmp_path, "rwkv", [*SINGLE_BYTES[:255], spelling]) == {}


@pytest.mark.parametrize(
    ("model", "name", "enough"),
    [("gpt2", "bos", 12), ("llama", "bos", 2), ("bert", "bos", 102), ("bert", "seperator", 103), ("t5", "eos", 2)],
)
def test_default_ids_of_inserted_tokens_must_exist(tmp_path: Path, model: str, name: str, enough: int):
    others = tuple({"bos", "eos", "seperator"} - {name})
    words = [b"%d" % index for index in range(enough)]
    assert failed(tmp_path, model, words, ids=others) == {}
    found = failed(tmp_path, model, words[:-1], ids=others)
    assert list(found) == [f"{name}_token_inserted"]
    assert f"tokenizer.ggml.{name}_token_id, which is missing" in found[f"{name}_token_inserted"]


def test_gemma4_always_inserts_a_begin_token(tmp_path: Path):
    flags = {"add_bos_token": False}
    assert "bos_token_inserted" in failed(tmp_path, "gemma4", [b"%d" % i for i in range(200)], ids=(), flags=flags)
    assert failed(tmp_path, "gemma4", WORDS, ids=("bos",), flags=flags) == {}


def test_tokens_that_are_not_inserted_need_no_id(tmp_path: Path):
    assert failed(tmp_path, "gpt2", WORDS, ids=(), flags={"add_bos_token": False}) == {}
    assert failed(tmp_path, "llama", [b"a"], ids=(), flags={"add_bos_token": False}) == {}
    assert failed(tmp_path, "t5", [b"a"], ids=(), flags={"add_eos_token": False}) == {}
    assert "eos_token_inserted" in failed(tmp_path, "llama", [b"a", b"b"], ids=(), flags={"add_eos_token": True})
