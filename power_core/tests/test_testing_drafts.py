"""The tiny drafts are real GGUFs: deterministic, whole or not there, and what their arguments say."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from draft_forms import FORMS, KINDS

from power_core.artifacts.block_layout import read_block_layout
from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.pairing import PAIR_PREFIX, check_block_pair, check_tokenizer_pair
from power_core.artifacts.roles import dflash_kinds
from power_core.artifacts.validation import CheckList
from power_core.errors import ConfigError
from power_core.testing import build_tiny_draft, build_tiny_target, gguf_files
from power_core.testing.tokenizer import SPECIAL_TOKENS, VOCABULARY_TOKENS, tiny_tokenizer

OTHER_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"target": "attention"},
    {"seed": 1},
    {"dtype": "F16"},
    {"own_head": True, "head_dtype": "Q8_0"},
    {"hidden": 256},
    {"block_size_rows": 9},
    *(
        dict(form, kind="dspark")
        for name, form in FORMS.items()
        if name.startswith("dspark-") and name != "dspark-plain"
    ),
)


def build(folder: Path, **arguments: Any) -> Path:
    return build_tiny_draft(folder / "d.gguf", **{"kind": "dspark", "hidden": 128, **arguments})


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def header_of(folder: Path, **arguments: Any) -> GgufHeader:
    return scan_header(build(folder, **arguments))


def test_equal_arguments_give_equal_bytes_and_every_argument_counts(tmp_path: Path) -> None:
    digests = [digest(build(tmp_path, **arguments)) for arguments in ({}, {}, *OTHER_ARGUMENTS)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == len(digests) - 1


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_layout_is_what_the_arguments_say(tmp_path: Path, form: dict[str, Any]) -> None:
    header = header_of(tmp_path, **form)
    layout = read_block_layout(header)
    vocabulary = form.get("draft_vocabulary_tokens")
    own_embeddings = form.get("own_embeddings", False)
    assert dflash_kinds(header) == (form["kind"],)
    assert (layout.hidden, header.get("dflash.block_count"), layout.block_size_rows) == (128, form.get("blocks", 2), 8)
    assert layout.target_layers == form.get("target_layers", (1, 2, 3))
    assert layout.mask_token == tiny_tokenizer().id_of("<|mask|>")
    assert layout.vocabulary_tokens == 512
    assert (header.tensors["d2t"].shape if "d2t" in header.tensors else None) == ((vocabulary,) if vocabulary else None)
    assert header.get("dflash.attention.sliding_window") == form.get("window_tokens")
    assert layout.causal == form.get("causal", False)
    assert layout.predicts_at_anchor == (form["kind"] == "dspark" and form.get("sample_from_anchor", True))
    assert layout.has_confidence == (form["kind"] == "dspark" and form.get("confidence_head", True))
    assert ("token_embd.weight" in header.tensors) == own_embeddings
    assert ("output.weight" in header.tensors) == (form.get("own_head", False) or vocabulary is not None)
    assert header.get("dflash.rope.dimension_sections") == ((32, 0, 0, 0) if form.get("sections", True) else None)
    assert ("dflash.attention.causal" in header.metadata) == ("causal" in form)


@pytest.mark.parametrize("target", ["hybrid", "attention", "sliding-window"])
@pytest.mark.parametrize("kind", KINDS)
def test_drafts_fit_the_targets(tmp_path: Path, kind: str, target: str) -> None:
    draft = header_of(tmp_path, kind=kind, target=target)
    other = scan_header(build_tiny_target(tmp_path / "t.gguf", kind=target, hidden=128))
    checks = CheckList(PAIR_PREFIX)
    check_tokenizer_pair(other, draft, checks)
    check_block_pair(other, draft, checks)
    assert checks.report(kind, draft.path).ok
    assert (draft.get("dflash.rope.dimension_sections") is not None) == (target == "hybrid")


@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_are_stored_as_asked_and_others_read_them(tmp_path: Path, kind: str, dtype: str) -> None:
    path = build(tmp_path, kind=kind, dtype=dtype, own_head=True, head_dtype="F16", own_embeddings=True)
    for tensor in gguf.GGUFReader(path).tensors:
        expected = "F16" if tensor.name == "output.weight" else dtype if len(tensor.shape) == 2 else "F32"
        assert tensor.tensor_type.name == expected, tensor.name
        assert np.isfinite(gguf.quants.dequantize(tensor.data, tensor.tensor_type)).all()


def test_draft_vocabulary_is_a_shuffled_part_without_special_tokens(tmp_path: Path) -> None:
    reader = gguf.GGUFReader(build(tmp_path, draft_vocabulary_tokens=200))
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    ids = tensors["d2t"].data
    assert tensors["d2t"].tensor_type.name == "I64"
    assert len(set(ids.tolist())) == 200
    assert 0 <= ids.min() <= ids.max() < VOCABULARY_TOKENS - len(SPECIAL_TOKENS)
    assert (np.diff(ids) < 0).any()
    assert tuple(tensors["output.weight"].shape) == (128, 200)
    assert tuple(tensors["markov_w1.weight"].shape) == (64, 512)
    assert tuple(tensors["markov_w2.weight"].shape) == (64, 200)


def test_sliding_window_has_a_pattern_by_block(tmp_path: Path) -> None:
    header = header_of(tmp_path, window_tokens=16, blocks=3)
    assert header.get("dflash.attention.sliding_window") == 16
    assert tuple(header.get("dflash.attention.sliding_window_pattern")) == (True, False, True)


def test_file_is_replaced_whole_and_nothing_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(tmp_path)
    before = digest(path)

    def fail(*_: object) -> None:
        raise RuntimeError("stopped half-way")

    monkeypatch.setattr(gguf_files, "_add_tensor", fail)
    with pytest.raises(RuntimeError, match="half-way"):
        build(tmp_path, seed=1)
    assert digest(path) == before
    assert [item.name for item in tmp_path.iterdir()] == ["d.gguf"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "eagle3"}, "kind"),
        ({"target": "dense"}, "target"),
        ({"dtype": "Q4_K"}, "dtype"),
        ({"head_dtype": "Q8_0"}, "head_dtype"),
        ({"head_dtype": "Q4_K", "own_head": True}, "head_dtype"),
        ({"hidden": 0}, "hidden"),
        ({"hidden": 192}, "hidden"),
        ({"blocks": 0}, "blocks"),
        ({"block_size_rows": 0}, "block_size_rows"),
        ({"block_size_rows": 1, "sample_from_anchor": False}, "block_size_rows"),
        ({"block_size_rows": 1, "kind": "dflash"}, "block_size_rows"),
        ({"target_layers": ()}, "target_layers"),
        ({"target_layers": (1, 1)}, "target_layers"),
        ({"target_layers": (1, 4)}, "target_layers"),
        ({"target_layers": (-1,)}, "target_layers"),
        ({"draft_vocabulary_tokens": 4}, "draft_vocabulary_tokens"),
        ({"draft_vocabulary_tokens": 509}, "draft_vocabulary_tokens"),
        ({"window_tokens": 0}, "window_tokens"),
        ({"kind": "dflash", "sample_from_anchor": False}, "sample_from_anchor"),
        ({"kind": "dflash2", "confidence_head": False}, "confidence_head"),
        ({"path": Path("/nowhere/at/all.gguf")}, "path"),
    ],
)
def test_wrong_arguments(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    arguments = {"path": tmp_path / "d.gguf", "kind": "dspark", **changes}
    with pytest.raises(ConfigError) as caught:
        build_tiny_draft(**arguments)
    assert caught.value.field == field
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [{"block_size_rows": 1}, {"target": "sliding-window", "target_layers": (5,)}])
def test_bounds_are_allowed(tmp_path: Path, arguments: dict[str, Any]) -> None:
    assert header_of(tmp_path, **arguments).get("dflash.block_count") == 2
