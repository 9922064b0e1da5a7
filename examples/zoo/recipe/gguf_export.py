"""Writes the models as GGUF files: matrices in F16 or Q8_0 (F32 for checks), vectors and convolutions in F32."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from gguf import GGMLQuantizationType, GGUFWriter, quants
from torch import Tensor

from recipe.blocks import DraftLayer
from recipe.bpe import GGUF_PRE_TOKENIZER, Vocabulary
from recipe.delta_net import CONV_KERNEL, GatedDeltaNet
from recipe.drafters import BlockDrafter
from recipe.layers import NORM_EPSILON, FeedForward, GatedAttention
from recipe.mtp import MtpHead
from recipe.target import Target

MatrixType: TypeAlias = Literal["F32", "F16", "Q8_0"]
Named: TypeAlias = Iterator[tuple[str, Tensor]]

CONTEXT_TOKENS = 4096
ROPE_SECTIONS = (3, 3, 2, 0)
TOKEN_NORMAL = 1
TOKEN_CONTROL = 3
LICENCE = "PSF-2.0"


def export_target(path: Path, target: Target, head: MtpHead, vocabulary: Vocabulary, matrices: MatrixType) -> None:
    """Write the target with its prediction head."""
    shape = target.shape
    writer = _writer(path, "qwen35", "Power zoo target", vocabulary, shape.hidden, shape.inner, shape.rope_base)
    _add_heads(writer, shape.heads, shape.key_heads, shape.width, shape.rotated)
    writer.add_block_count(shape.layers + 1)
    writer.add_nextn_predict_layers(1)
    writer.add_rope_dimension_sections(ROPE_SECTIONS)
    writer.add_full_attention_interval(shape.interval)
    writer.add_ssm_conv_kernel(CONV_KERNEL)
    writer.add_ssm_state_size(shape.width)
    writer.add_ssm_group_count(shape.key_heads)
    writer.add_ssm_time_step_rank(shape.heads)
    writer.add_ssm_inner_size(shape.heads * shape.width)
    _write(writer, [*_target_tensors(target), *_mtp_tensors(head, f"blk.{shape.layers}")], matrices)


def export_drafter(path: Path, drafter: BlockDrafter, vocabulary: Vocabulary, matrices: MatrixType) -> None:
    """Write a block drafter; embeddings and output matrix stay with the target."""
    shape = drafter.shape
    name = f"Power zoo {shape.kind} draft"
    writer = _writer(path, "dflash", name, vocabulary, shape.hidden, shape.inner, shape.rope_base)
    _add_heads(writer, shape.heads, shape.key_heads, shape.width, shape.width)
    writer.add_block_count(shape.layers)
    writer.add_rope_dimension_sections([shape.width // 2, 0, 0, 0])
    writer.add_causal_attention(False)
    writer.add_uint32("dflash.block_size", shape.block_rows)
    writer.add_array("dflash.target_layers", shape.target_layers)
    if shape.kind == "dspark":
        writer.add_bool("dflash.sample_from_anchor", True)
        writer.add_bool("dflash.has_confidence_head", True)
    if shape.kind == "dflash2":
        writer.add_uint32("dflash.conv_kernel_size", shape.conv_kernel)
        writer.add_uint32("dflash.conv_group_size", shape.conv_group)
        writer.add_uint32("dflash.selector_rank", shape.selector_rank)
        writer.add_uint32("dflash.selector_top_k", shape.selector_width)
    _write(writer, [*_drafter_tensors(drafter)], matrices)


def _writer(
    path: Path, architecture: str, name: str, vocabulary: Vocabulary, hidden: int, inner: int, rope_base: float
) -> GGUFWriter:
    writer = GGUFWriter(path, architecture)
    writer.add_type("model")
    writer.add_name(name)
    writer.add_license(LICENCE)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_rope_freq_base(rope_base)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(GGUF_PRE_TOKENIZER)
    writer.add_token_list(vocabulary.tokens)
    special = (vocabulary.end_of_text, vocabulary.mask)
    count = len(vocabulary.tokens)
    writer.add_token_types([TOKEN_CONTROL if token in special else TOKEN_NORMAL for token in range(count)])
    writer.add_token_merges(vocabulary.merges)
    writer.add_eos_token_id(vocabulary.end_of_text)
    writer.add_mask_token_id(vocabulary.mask)
    writer.add_add_bos_token(False)
    return writer


def _add_heads(writer: GGUFWriter, heads: int, key_heads: int, width: int, rotated: int) -> None:
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(rotated)


def _write(writer: GGUFWriter, tensors: list[tuple[str, Tensor]], matrices: MatrixType) -> None:
    for name, values in tensors:
        array = values.detach().contiguous().numpy()
        kind = GGMLQuantizationType[matrices if array.ndim == 2 and "conv1d" not in name else "F32"]
        writer.add_tensor(name, quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _target_tensors(target: Target) -> Named:
    yield "token_embd.weight", target.embeddings.weight
    yield "output_norm.weight", target.norm.weight
    yield "output.weight", target.head.weight
    for index, block in enumerate(target.blocks):
        name = f"blk.{index}"
        yield f"{name}.attn_norm.weight", block.mixer_norm.weight
        yield f"{name}.post_attention_norm.weight", block.inner_norm.weight
        yield from _feed_forward_tensors(name, block.inner)
        yield from (
            _attention_tensors(name, block.mixer)
            if target.shape.is_attention(index)
            else _delta_tensors(name, block.mixer)
        )


def _mtp_tensors(head: MtpHead, name: str) -> Named:
    yield f"{name}.nextn.enorm.weight", head.token_norm.weight
    yield f"{name}.nextn.hnorm.weight", head.row_norm.weight
    yield f"{name}.nextn.eh_proj.weight", head.join.weight
    yield f"{name}.nextn.shared_head_norm.weight", head.norm.weight
    yield f"{name}.attn_norm.weight", head.mixer_norm.weight
    yield f"{name}.post_attention_norm.weight", head.inner_norm.weight
    yield from _attention_tensors(name, head.mixer)
    yield from _feed_forward_tensors(name, head.inner)


def _attention_tensors(name: str, mixer: GatedAttention | DraftLayer) -> Named:
    yield f"{name}.attn_q.weight", mixer.query.weight
    yield f"{name}.attn_k.weight", mixer.key.weight
    yield f"{name}.attn_v.weight", mixer.value.weight
    yield f"{name}.attn_output.weight", mixer.output.weight
    yield f"{name}.attn_q_norm.weight", mixer.query_norm.weight
    yield f"{name}.attn_k_norm.weight", mixer.key_norm.weight


def _delta_tensors(name: str, mixer: GatedDeltaNet) -> Named:
    yield f"{name}.attn_qkv.weight", mixer.mixed.weight
    yield f"{name}.attn_gate.weight", mixer.gate.weight
    yield f"{name}.ssm_conv1d.weight", mixer.conv
    yield f"{name}.ssm_dt.bias", mixer.step_bias
    yield f"{name}.ssm_a", -mixer.log_decay.exp()
    yield f"{name}.ssm_beta.weight", mixer.beta.weight
    yield f"{name}.ssm_alpha.weight", mixer.alpha.weight
    yield f"{name}.ssm_norm.weight", mixer.norm.weight
    yield f"{name}.ssm_out.weight", mixer.output.weight


def _feed_forward_tensors(name: str, inner: FeedForward) -> Named:
    yield f"{name}.ffn_gate.weight", inner.gate.weight
    yield f"{name}.ffn_up.weight", inner.up.weight
    yield f"{name}.ffn_down.weight", inner.down.weight


def _drafter_tensors(drafter: BlockDrafter) -> Named:
    backbone = drafter.backbone
    yield "fc.weight", backbone.fuse.weight
    yield "enc.output_norm.weight", backbone.fuse_norm.weight
    yield "output_norm.weight", backbone.norm.weight
    for index, layer in enumerate(backbone.layers):
        name = f"blk.{index}"
        yield f"{name}.attn_norm.weight", layer.mixer_norm.weight
        yield f"{name}.ffn_norm.weight", layer.inner_norm.weight
        yield from _attention_tensors(name, layer)
        yield from _feed_forward_tensors(name, layer.inner)
        for side, conv in (("attn", layer.mixer_conv), ("ffn", layer.inner_conv)):
            if conv is not None:
                yield f"{name}.{side}_conv_base", conv.base
                yield f"{name}.{side}_conv_proj.weight", conv.projection.weight
    if drafter.markov is not None:
        yield "markov_w1.weight", drafter.markov.before.weight
        yield "markov_w2.weight", drafter.markov.after.weight
        yield "conf_proj.weight", drafter.markov.confidence.weight
        yield "conf_proj.bias", drafter.markov.confidence.bias
    if drafter.selector is not None:
        yield "selector_predecessor.weight", drafter.selector.predecessor.weight
        yield "selector_successor.weight", drafter.selector.successor.weight
        yield "selector_hidden.weight", drafter.selector.gate.weight
