"""The tiny models are real GGUFs: readable by others, deterministic, with a tokenizer that hangs together."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import gguf
import jinja2
import numpy as np
import pytest

from power_core.artifacts.gguf import scan_header
from power_core.artifacts.roles import check_target
from power_core.errors import ConfigError
from power_core.testing import gguf_files, models
from power_core.testing.models import WeightType, build_tiny_target, default_target_path
from power_core.testing.tiny_weights import TargetKind
from power_core.testing.tokenizer import (
    CHAT_TEMPLATE,
    SPECIAL_TOKENS,
    TOKEN_TYPE_CONTROL,
    VOCABULARY_TOKENS,
    byte_alphabet,
    tiny_tokenizer,
)

KINDS: tuple[TargetKind, ...] = ("hybrid", "attention", "sliding-window")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
def test_models_scan_clean_and_others_read_them(tmp_path: Path, kind: TargetKind, dtype: WeightType) -> None:
    path = build_tiny_target(tmp_path / "m.gguf", kind=kind, dtype=dtype, hidden=128)
    header = scan_header(path)
    assert check_target(header).failures == ()
    reader = gguf.GGUFReader(path)
    assert {t.name: tuple(int(extent) for extent in t.shape) for t in reader.tensors} == {
        t.name: t.shape for t in header.tensors.values()
    }
    for tensor in reader.tensors:
        info = header.tensors[tensor.name]
        matrix = len(info.shape) == 2 and not tensor.name.endswith("ssm_conv1d.weight")
        assert info.type_name == tensor.tensor_type.name == (dtype if matrix else "F32")
        assert header.data_offset_bytes + info.offset_bytes == tensor.data_offset
        assert np.isfinite(gguf.quants.dequantize(tensor.data, tensor.tensor_type)).all()
    del reader


def test_kinds_differ_in_what_they_remember(tmp_path: Path) -> None:
    hybrid, attention, window = (
        scan_header(build_tiny_target(tmp_path / "m.gguf", kind=kind, hidden=128, dtype="Q8_0")) for kind in KINDS
    )
    assert (hybrid.architecture, hybrid.nextn_layers, hybrid.get("qwen35.block_count")) == ("qwen35", 1, 5)
    assert [f"blk.{block}.ssm_a" in hybrid.tensors for block in range(5)] == [True, True, True, False, False]
    assert (attention.architecture, attention.nextn_layers) == ("qwen3", 0)
    assert (window.architecture, window.get("gemma3.attention.sliding_window")) == ("gemma3", 32)
    assert "output.weight" not in window.tensors


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_number_of_prediction_blocks(tmp_path: Path, layers: int) -> None:
    path = build_tiny_target(tmp_path / "m.gguf", kind="hybrid", nextn_layers=layers, hidden=128, dtype="Q8_0")
    header = scan_header(path)
    assert header.nextn_layers == layers
    assert header.get("qwen35.block_count") == 4 + layers
    assert sum(name.endswith("nextn.eh_proj.weight") for name in header.tensors) == layers
    assert check_target(header).ok


def test_seed_decides_the_bytes(tmp_path: Path) -> None:
    first, again, other = (
        build_tiny_target(tmp_path / f"{name}.gguf", kind="hybrid", seed=seed, hidden=128)
        for name, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    assert digest(first) == digest(again)
    assert digest(first) != digest(other)


def test_file_is_replaced_whole_and_nothing_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_tiny_target(tmp_path / "m.gguf", kind="attention", hidden=128)
    before = digest(path)

    def fail(*_: object) -> None:
        raise RuntimeError("stopped half-way")

    monkeypatch.setattr(gguf_files, "_add_tensor", fail)
    with pytest.raises(RuntimeError, match="half-way"):
        build_tiny_target(path, kind="attention", seed=1, hidden=128)
    assert digest(path) == before
    assert [item.name for item in tmp_path.iterdir()] == ["m.gguf"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "dense"}, "kind"),
        ({"dtype": "Q4_K"}, "dtype"),
        ({"hidden": 0}, "hidden"),
        ({"hidden": 192}, "hidden"),
        ({"nextn_layers": -1}, "nextn_layers"),
        ({"kind": "attention", "nextn_layers": 1}, "nextn_layers"),
        ({"path": Path("/nowhere/at/all.gguf")}, "path"),
    ],
)
def test_wrong_arguments(tmp_path: Path, changes: dict[str, object], field: str) -> None:
    arguments: dict[str, object] = {"path": tmp_path / "m.gguf", "kind": "hybrid", **changes}
    with pytest.raises(ConfigError) as caught:
        build_tiny_target(**arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_vocabulary_hangs_together() -> None:
    tokenizer = tiny_tokenizer()
    tokens = set(tokenizer.tokens)
    assert len(tokenizer.tokens) == len(tokens) == len(tokenizer.token_types) == VOCABULARY_TOKENS
    assert tokenizer.tokens[:256] == byte_alphabet()
    assert len(set(byte_alphabet())) == 256
    pairs = [merge.split(" ") for merge in tokenizer.merges]
    assert all(len(pair) == 2 and {*pair, "".join(pair)} <= tokens for pair in pairs)
    for rank, (left, right) in enumerate(pairs):
        known = {*byte_alphabet(), *("".join(pair) for pair in pairs[:rank])}
        assert {left, right} <= known
    assert tokenizer.tokens[-4:] == SPECIAL_TOKENS
    assert [kind == TOKEN_TYPE_CONTROL for kind in tokenizer.token_types] == [False] * 508 + [True] * 4


def test_frequent_words_are_single_tokens() -> None:
    assert {"Ġreturn", "Ġthe", "def", "ing", "Ġself", "ĠĠĠĠ"} <= set(tiny_tokenizer().tokens)


def test_chat_template_renders() -> None:
    template = jinja2.Environment(autoescape=False).from_string(CHAT_TEMPLATE)
    rendered = template.render(messages=[{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    assert rendered == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_default_target_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))
    path = default_target_path()
    assert path.parent == tmp_path / "models"
    assert check_target(scan_header(path)).ok
    stamp = path.stat().st_mtime_ns
    assert default_target_path() == path
    assert path.stat().st_mtime_ns == stamp
    monkeypatch.setattr(models, "_content_version", lambda: "changed")
    assert default_target_path() != path


def test_default_target_is_safe_to_build_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(default_target_path())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert [item.name for item in (tmp_path / "models").iterdir()] == [found[0].name]
    assert check_target(scan_header(found[0])).ok
