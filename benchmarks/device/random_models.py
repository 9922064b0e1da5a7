"""Writes the random-weight models of ``shapes`` as GGUF files, with the quantised blocks drawn directly.

Drawing floats and quantising them would take minutes for the real widths; kernels do not care which bits they read.
Weights depend on the shape alone.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from numpy.typing import NDArray
from shapes import DrafterShape, TargetShape, Tensors, drafter_tensors, target_tensors

from power_core.testing.tokenizer import CHAT_TEMPLATE, END_OF_TEXT, MASK, VOCABULARY_TOKENS, tiny_tokenizer

BlockType: TypeAlias = Literal["Q6_K", "Q4_K"]

CONTEXT_TOKENS = 8192
BLOCK_ELEMENTS = 256
BLOCK_BYTES = {"Q6_K": 210, "Q4_K": 144}
# Standard deviation of the drawn integers times their scales, per unit of the block's own factor.
_Q6_DEVIATION = 18.5 * 9.5
_Q4_DEVIATION = 4.6 * 16.0
_TILE_BLOCKS = 4096


def write_target(path: Path, shape: TargetShape) -> Path:
    """Write a target with Q6_K matrices and one prediction block."""
    writer = GGUFWriter(path, "qwen35")
    _add_common(writer, f"random target, {shape.layers} layers", shape.vocabulary)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers + 1)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    rotated = shape.head_width // 4
    writer.add_rope_dimension_count(rotated)
    third = rotated // 2 // 3
    writer.add_rope_dimension_sections([third, third, rotated // 2 - 2 * third, 0])
    writer.add_ssm_conv_kernel(shape.conv_kernel)
    writer.add_ssm_state_size(shape.state_width)
    writer.add_ssm_group_count(shape.state_key_heads)
    writer.add_ssm_time_step_rank(shape.state_heads)
    writer.add_ssm_inner_size(shape.state_inner)
    writer.add_full_attention_interval(shape.attention_interval)
    writer.add_nextn_predict_layers(1)
    return _finish(writer, path, target_tensors(shape), "Q6_K")


def write_drafter(path: Path, shape: DrafterShape, target: TargetShape) -> Path:
    """Write a drafter with Q4_K matrices for a target of that shape."""
    writer = GGUFWriter(path, "dflash")
    _add_common(writer, f"random {shape.kind} drafter", target.vocabulary)
    writer.add_embedding_length(target.hidden)
    writer.add_block_count(shape.blocks)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_dimension_sections([shape.head_width // 2, 0, 0, 0])
    writer.add_uint32("dflash.block_size", shape.block_size)
    writer.add_array("dflash.target_layers", list(shape.target_layers))
    if shape.kind == "dspark":
        writer.add_bool("dflash.sample_from_anchor", True)
        writer.add_bool("dflash.has_confidence_head", True)
    else:
        writer.add_uint32("dflash.conv_kernel_size", shape.conv_kernel)
        writer.add_uint32("dflash.conv_group_size", shape.conv_group)
        writer.add_uint32("dflash.selector_rank", shape.rank)
        writer.add_uint32("dflash.selector_top_k", shape.lattice_width)
    return _finish(writer, path, drafter_tensors(shape, target), "Q4_K")


def _add_common(writer: GGUFWriter, name: str, vocabulary: int) -> None:
    tokenizer = tiny_tokenizer()
    filler = range(VOCABULARY_TOKENS, vocabulary)
    writer.add_type("model")
    writer.add_name(name)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*tokenizer.tokens, *[f"<|filler_{number}|>" for number in filler]])
    writer.add_token_types([*tokenizer.token_types, *[1 for _ in filler]])
    writer.add_token_merges(tokenizer.merges)
    writer.add_eos_token_id(tokenizer.id_of(END_OF_TEXT))
    writer.add_mask_token_id(tokenizer.id_of(MASK))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _finish(writer: GGUFWriter, path: Path, tensors: Tensors, block_type: BlockType) -> Path:
    random = np.random.default_rng(1)
    for name, size in tensors:
        if len(size) == 2 and size[0] % BLOCK_ELEMENTS == 0 and "conv1d" not in name and size[1] > 1:
            blocks = _blocks(size, block_type, random)
            writer.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType[block_type])
        else:
            writer.add_tensor(name, _floats(name, size, random))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _blocks(size: tuple[int, ...], block_type: BlockType, random: np.random.Generator) -> NDArray[np.uint8]:
    """Rows of quantised blocks, uint8[rows, bytes of a row]: a drawn piece repeated, of deviation 1/sqrt(row)."""
    n_blocks = size[0] // BLOCK_ELEMENTS * size[1]
    tile = random.integers(0, 256, (min(n_blocks, _TILE_BLOCKS + 1), BLOCK_BYTES[block_type]), np.uint8)
    deviation = 1.0 / math.sqrt(size[0])
    if block_type == "Q6_K":  # 192 bytes of values, 16 signed scales, one factor
        tile[:, 192:208] = random.integers(-16, 17, (len(tile), 16)).astype(np.int8).view(np.uint8)
        tile[:, 208:210] = _half(deviation / _Q6_DEVIATION)
    else:  # two factors, 12 bytes of packed scales and minima, 128 bytes of values
        tile[:, 0:2] = _half(deviation / _Q4_DEVIATION)
        tile[:, 2:4] = _half(deviation / _Q4_DEVIATION * 7.5)
        tile[:, 4:16] = random.integers(0, 32, (len(tile), 1), np.uint8)
    repeated = np.resize(tile, (n_blocks, BLOCK_BYTES[block_type]))
    return repeated.reshape(size[1], -1)


def _half(value: float) -> NDArray[np.uint8]:
    return np.frombuffer(np.float16(value).tobytes(), np.uint8)


def _floats(name: str, size: tuple[int, ...], random: np.random.Generator) -> NDArray[Any]:
    order = size[::-1]
    if name.endswith("ssm_a"):
        return -random.uniform(0.02, 0.5, order).astype(np.float32)
    if len(size) == 1 and not name.endswith("bias"):
        return np.ones(order, np.float32)
    values = random.standard_normal(order, np.float32) / np.float32(math.sqrt(size[0]))
    two_dimensional = len(size) == 2 and "conv1d" not in name and "conv_base" not in name
    return values.astype(np.float16) if two_dimensional else values
