"""Files that are no draft, and drafts that belong to another target."""

from __future__ import annotations

from pathlib import Path

from artifact_cases import ArtifactCase
from draft_faults import (
    BOOL,
    CONTRACT,
    I32,
    PAIRING,
    STRING,
    U16,
    U32,
    VALIDATORS,
    check,
    scan,
    target_bytes,
)

from power_core.artifacts.drafts import check_draft
from power_core.artifacts.gguf import ValueType
from power_core.testing.draft_headers import TOKENS, DraftHeader, minimal_draft
from power_core.testing.headers import GgufBytes, minimal_target


def role(name: str, fault: str, content: GgufBytes | DraftHeader) -> ArtifactCase:
    """A file that is no draft of an installed kind."""
    return ArtifactCase(
        name=name,
        fault=fault,
        attempt=lambda folder: check(folder, content.build()),
        code=CONTRACT,
        check_id="draft.role",
    )


def named(architecture: str) -> GgufBytes:
    return GgufBytes().with_value("general.architecture", STRING, architecture)


def without_plugin(folder: Path) -> None:
    headers = (
        scan(folder, f"{name}.gguf", content.build())
        for name, content in (("t", target_bytes()), ("d", minimal_draft("dspark")))
    )
    check_draft(*headers, [VALIDATORS["dflash"]])


ROLE_CASES = (
    role(
        "draft-in-fork-format",
        "a DFlash draft in the format of a fork (`dflash-draft`, nested keys)",
        named("dflash-draft").with_value("dflash-draft.dflash.block_size", U32, 16).with_tensor("fc.weight"),
    ),
    role("draft-is-eagle3", "an EAGLE-3 draft", named("eagle3").with_tensor("fc.weight")),
    role("draft-is-a-target", "a plain model as draft", minimal_target()),
    role(
        "draft-is-a-target-with-mtp",
        "a target with MTP heads as draft",
        target_bytes().with_value("qwen3.nextn_predict_layers", U32, 1).with_tensor("blk.1.nextn.eh_proj.weight"),
    ),
    role(
        "draft-is-an-mtp-companion",
        "MTP blocks without their target as draft",
        named("qwen35")
        .with_value("qwen35.nextn_predict_layers", U32, 1)
        .with_value("qwen35.block_count", U32, 1)
        .with_tensor("blk.0.nextn.eh_proj.weight"),
    ),
    role("draft-is-an-adapter", "an adapter as draft", named("qwen3").with_value("general.type", STRING, "adapter")),
    role("draft-is-a-projector", "a multimodal projector as draft", named("clip").with_tensor("v")),
    role(
        "draft-is-a-vocabulary",
        "a vocabulary without weights as draft",
        named("qwen3").with_array("tokenizer.ggml.tokens", STRING, ["a"]),
    ),
    role(
        "draft-is-a-later-shard",
        "the second of three shards as draft",
        GgufBytes()
        .with_value("split.no", U16, 1)
        .with_value("split.count", U16, 3)
        .with_value("split.tensors.count", I32, 9)
        .with_tensor("t"),
    ),
    role("draft-is-something-else", "a file without an architecture as draft", GgufBytes()),
    ArtifactCase(
        name="draft-without-its-plugin",
        fault="a DSpark draft, and power-dspark is not installed",
        attempt=without_plugin,
        code=CONTRACT,
        check_id="draft.role",
    ),
    ArtifactCase(
        name="draft-of-two-kinds",
        fault="a draft with a Markov head and a selector",
        attempt=lambda folder: check(folder, minimal_draft("dflash2").with_tensor("markov_w1.weight", (4, 4)).build()),
        code=CONTRACT,
        check_id="draft.kinds",
    ),
)


def pair(name: str, fault: str, check_id: str, target: GgufBytes) -> ArtifactCase:
    """A valid draft beside another target."""
    return ArtifactCase(
        name=f"pair-{name}",
        fault=fault,
        attempt=lambda folder: check(folder, minimal_draft("dflash").build(), target),
        code=PAIRING,
        check_id=f"pair.{check_id}",
    )


def retokenized(name: str, value_type: ValueType, value: object) -> GgufBytes:
    full = f"tokenizer.ggml.{name}"
    target = target_bytes().without(full)
    if isinstance(value, list):
        return target.with_array(full, value_type, value)
    return target.with_value(full, value_type, value)  # type: ignore[arg-type]


PAIR_CASES = (
    pair(
        "tokenizer-model",
        "the tokenizers are of different kinds",
        "tokenizer_model",
        retokenized("model", STRING, "llama"),
    ),
    pair("pre-tokenizer", "the pre-tokenizers differ", "pre_tokenizer", retokenized("pre", STRING, "llama-bpe")),
    pair("bos", "only the target has a BOS token", "bos_token_id", retokenized("bos_token_id", U32, 0)),
    pair("eos", "the EOS tokens differ", "eos_token_id", retokenized("eos_token_id", U32, 0)),
    pair("add-bos", "only one file asks for a BOS token", "add_bos_token", retokenized("add_bos_token", BOOL, True)),
    pair(
        "add-eos",
        "only the target says whether EOS is added",
        "add_eos_token",
        retokenized("add_eos_token", BOOL, False),
    ),
    pair(
        "token-count",
        "the vocabularies have different sizes",
        "token_count",
        retokenized("tokens", STRING, [*TOKENS, "[PAD4]"]),
    ),
    pair("token-text", "one token differs", "token_text", retokenized("tokens", STRING, ["a", "B", "ab", "<end>"])),
    pair("without-tokens", "the target has no token list", "tokens", target_bytes().without("tokenizer.ggml.tokens")),
    pair(
        "hidden-width",
        "the hidden widths differ",
        "hidden_width",
        target_bytes().without("qwen3.embedding_length").with_value("qwen3.embedding_length", U32, 64),
    ),
    pair(
        "layer-behind-the-last",
        "the draft reads the input of a layer one behind the target's last",
        "target_layer_last",
        target_bytes().without("qwen3.block_count").with_value("qwen3.block_count", U32, 2),
    ),
    pair(
        "layer-of-the-mtp-block",
        "the draft reads the input of the target's MTP block",
        "target_layer_last",
        target_bytes().with_value("qwen3.nextn_predict_layers", U32, 1),
    ),
    pair(
        "layer-far-behind",
        "the draft reads the input of a layer that the target does not have",
        "target_layer_range",
        minimal_target(),
    ),
    pair(
        "without-width",
        "the target does not say how wide it is",
        "layout",
        target_bytes().without("qwen3.embedding_length"),
    ),
)
