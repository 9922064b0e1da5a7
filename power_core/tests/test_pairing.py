"""Tokens and layers that a draft and its target have to agree on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from draft_faults import STRING, U32, scan, target_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.pairing import check_block_pair, check_tokenizer_pair
from power_core.artifacts.validation import Check, CheckList
from power_core.artifacts.values import StringArray
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.headers import GgufBytes


def tokenizer(folder: Path, name: str, tokens: Sequence[str | bytes]) -> GgufHeader:
    content = GgufBytes().with_value("general.architecture", STRING, "qwen3")
    return scan(folder, name, content.with_array("tokenizer.ggml.tokens", STRING, tokens).build())


def failures(target: GgufHeader, draft: GgufHeader) -> list[Check]:
    checks = CheckList("pair")
    check_tokenizer_pair(target, draft, checks)
    return list(checks.report("pair", draft.path).failures)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=st.lists(st.binary(max_size=4), min_size=1), right=st.lists(st.binary(max_size=4), min_size=1))
def test_tokens_agree_exactly_when_every_one_is_equal(tmp_path: Path, left: list[bytes], right: list[bytes]) -> None:
    found = failures(tokenizer(tmp_path, "t.gguf", left), tokenizer(tmp_path, "d.gguf", right))
    assert (found == []) == (left == right)
    ids = [check.id for check in found]
    assert ("pair.token_count" in ids) == (len(left) != len(right))
    common = min(len(left), len(right))
    assert ("pair.token_text" in ids) == (left[:common] != right[:common])


def test_first_differing_token_is_shown_with_both_texts(tmp_path: Path) -> None:
    target, draft = (tokenizer(tmp_path, name, ["a", text, "c", other]) for name, text, other in ("tbx", "dBy"))
    assert [check.message for check in failures(target, draft)] == ["token 1 is 'b' in the target and 'B' in the draft"]


@pytest.mark.parametrize(
    ("added", "note"),
    [
        (["[PAD3]", "[PAD4]"], "; they differ by padding only ('[PAD3]' and so on), convert both alike"),
        (["<unused0>"], "; they differ by padding only ('<unused0>' and so on), convert both alike"),
        (["word"], ""),
    ],
)
def test_padding_is_named(tmp_path: Path, added: list[str], note: str) -> None:
    tokens = ["a", "b", "c"]
    target, draft = tokenizer(tmp_path, "t.gguf", [*tokens, *added]), tokenizer(tmp_path, "d.gguf", tokens)
    found = failures(target, draft)
    assert [check.message for check in found] == [f"the target has {3 + len(added)} tokens, the draft 3{note}"]


def test_absent_keys_agree_and_differ_from_every_value(tmp_path: Path) -> None:
    plain = tokenizer(tmp_path, "t.gguf", ["a"])
    assert failures(plain, plain) == []
    content = GgufBytes().with_array("tokenizer.ggml.tokens", STRING, ["a"])
    draft = scan(tmp_path, "d.gguf", content.with_value("tokenizer.ggml.bos_token_id", U32, 0).build())
    assert [check.message for check in failures(plain, draft)] == [
        "'tokenizer.ggml.bos_token_id' is absent in the target and 0 in the draft"
    ]


def test_equal_vocabularies_are_not_read_token_by_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [f"token {index}" for index in range(1000)]
    target, draft = tokenizer(tmp_path, "t.gguf", tokens), tokenizer(tmp_path, "d.gguf", tokens)
    for name in ("iter_raw", "raw", "__getitem__"):
        monkeypatch.delattr(StringArray, name)
    assert failures(target, draft) == []


@pytest.mark.parametrize(
    ("layers", "ids"),
    [
        ((0, 2), []),
        ((0, 3), ["pair.target_layer_last"]),
        ((0, 4), ["pair.target_layer_range"]),
        ((3, 9), ["pair.target_layer_last", "pair.target_layer_range"]),
    ],
)
def test_layers_have_to_lie_inside_the_trunk(tmp_path: Path, layers: tuple[int, ...], ids: list[str]) -> None:
    target = scan(tmp_path, "t.gguf", target_bytes().build())
    draft = scan(tmp_path, "d.gguf", minimal_draft("dflash").with_key("dflash.target_layers", U32, layers).build())
    checks = CheckList("pair")
    check_block_pair(target, draft, checks)
    assert [check.id for check in checks.report("dflash", draft.path).failures] == ids


def test_broken_files_are_a_verdict(tmp_path: Path) -> None:
    target = scan(tmp_path, "t.gguf", target_bytes().without("general.architecture").build())
    draft = scan(tmp_path, "d.gguf", minimal_draft("dflash").build())
    for left, right in ((target, draft), (draft, target)):
        checks = CheckList("pair")
        check_block_pair(left, right, checks)
        assert [check.id for check in checks.report("dflash", draft.path).failures] == ["pair.layout"]
