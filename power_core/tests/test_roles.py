"""What ``power inspect`` says a file is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.artifacts.gguf import GgufHeader, ValueType, scan_header
from power_core.artifacts.roles import describe_role, dflash_kinds
from power_core.errors import ArtifactContractError
from power_core.testing.headers import GgufBytes, minimal_target
from power_core.testing.models import build_tiny_target

U16, U32, I32, STRING = ValueType.UINT16, ValueType.UINT32, ValueType.INT32, ValueType.STRING


def scan(folder: Path, content: GgufBytes) -> GgufHeader:
    path = folder / "model.gguf"
    path.write_bytes(content.build())
    return scan_header(path)


def architecture(name: str) -> GgufBytes:
    return GgufBytes().with_value("general.architecture", STRING, name)


def dflash(*tensors: str) -> GgufBytes:
    content = architecture("dflash").with_value("dflash.block_size", U32, 16)
    content = content.with_array("dflash.target_layers", U32, [8, 16])
    for name in ("fc.weight", *tensors):
        content = content.with_tensor(name)
    return content


def shard(index: int, count: int) -> GgufBytes:
    content = GgufBytes().with_value("split.no", U16, index).with_value("split.count", U16, count)
    return content.with_value("split.tensors.count", I32, 9).with_tensor("t")


@pytest.mark.parametrize(
    ("content", "role", "sentence", "next_step"),
    [
        (minimal_target(), "target", "'qwen3', 1 blocks, 4 tokens, context 64", "--spec prompt-lookup"),
        (minimal_target().with_value("qwen3.attention.causal", ValueType.BOOL, False), "other", "'qwen3'", "causal"),
        (dflash(), "dflash-family draft", "looks like dflash (block size 16, target layers (8, 16))", "--spec dflash"),
        (dflash("markov_w1.weight"), "dflash-family draft", "looks like dspark", "--spec dspark"),
        (dflash("conf_proj.weight"), "dflash-family draft", "looks like dspark", "--spec dspark"),
        (dflash("selector_hidden.weight"), "dflash-family draft", "looks like dflash2", "--spec dflash2"),
        (dflash("blk.0.attn_conv_base"), "dflash-family draft", "looks like dflash2", "--spec dflash2"),
        (dflash("selector_hidden.weight", "markov_w2.weight"), "dflash-family draft", "mixes", "one kind"),
        (architecture("dflash-draft").with_tensor("fc.weight"), "fork-format draft", "'dflash-draft'", "Convert"),
        (architecture("dspark").with_tensor("fc.weight"), "fork-format draft", "'dspark'", "Convert"),
        (architecture("eagle3").with_tensor("fc.weight"), "eagle3 draft", "EAGLE-3", "target"),
        (shard(0, 3), "split shard", "Shard 1 of 3: 1 of the model's 9 tensors", "Give this file"),
        (shard(1, 3), "split shard", "Shard 2 of 3", "-00001-of-00003.gguf"),
        (architecture("llama").with_value("general.type", STRING, "adapter"), "adapter", "an adapter", "base model"),
        (architecture("clip").with_tensor("v"), "projector", "multimodal projector", "language model"),
        (
            architecture("llama").with_array("tokenizer.ggml.tokens", STRING, ["a", "b"]),
            "vocab-only",
            "2 tokens without weights",
            "weights",
        ),
        (GgufBytes(), "other", "No general.architecture, 0 tensors", "causal language model"),
        (architecture("bert").with_tensor("cls.weight"), "other", "'bert', 1 tensors", "causal language model"),
    ],
)
def test_role(tmp_path: Path, content: GgufBytes, role: str, sentence: str, next_step: str) -> None:
    found = describe_role(scan(tmp_path, content))
    assert found.role == role
    assert sentence in found.sentence
    assert next_step in found.next_step


def test_dflash2_is_told_by_its_keys_too(tmp_path: Path) -> None:
    header = scan(tmp_path, dflash().with_value("dflash.selector_top_k", U32, 4))
    assert dflash_kinds(header) == ("dflash2",)


def test_target_with_prediction_blocks(tmp_path: Path) -> None:
    header = scan_header(build_tiny_target(tmp_path / "m.gguf", kind="hybrid", hidden=128, dtype="Q8_0"))
    found = describe_role(header)
    assert found.role == "target-with-nextn"
    assert "5 blocks" in found.sentence
    assert "1 of the blocks predict ahead" in found.sentence
    assert "--spec mtp" in found.next_step


def test_prediction_blocks_without_their_model(tmp_path: Path) -> None:
    content = architecture("qwen35").with_value("qwen35.nextn_predict_layers", U32, 1)
    for blocks, block in ((1, 0), (5, 4)):
        whole = content.with_value("qwen35.block_count", U32, blocks).with_tensor(f"blk.{block}.nextn.eh_proj.weight")
        assert describe_role(scan(tmp_path, whole)).role == "nextn-companion"


def test_single_shard_is_a_whole_model(tmp_path: Path) -> None:
    content = minimal_target().with_value("split.count", U16, 1).with_value("split.no", U16, 0)
    assert describe_role(scan(tmp_path, content)).role == "target"


def test_wrong_type_of_a_deciding_key_is_named(tmp_path: Path) -> None:
    content = minimal_target().with_value("split.count", STRING, "3")
    with pytest.raises(ArtifactContractError, match=r"split\.count.*stored as STRING"):
        describe_role(scan(tmp_path, content))
