"""Tiny random models of three architectures whose attention has a part that the tiny targets do not have."""

from pathlib import Path

import numpy as np

from power_core.testing.gguf_files import write_model
from power_core.testing.tokenizer import tiny_tokenizer

HIDDEN, HEADS, FEED_FORWARD, EXPERTS, BLOCKS = 128, 4, 128, 2, 2
MATRICES = {"ffn_gate": (FEED_FORWARD, HIDDEN), "ffn_up": (FEED_FORWARD, HIDDEN), "ffn_down": (HIDDEN, FEED_FORWARD)}


def build_attention_model(folder: Path, part: str) -> Path:
    """Write the model with `part`: softcap (wide heads, a window), alibi (heads of 32) or sinks (experts, a window)."""
    architecture, key_heads, head_width = {
        "softcap": ("gemma2", 1, 256),
        "alibi": ("mpt", HEADS, HIDDEN // HEADS),
        "sinks": ("gpt-oss", 2, 64),
    }[part]

    def add_keys(writer):
        writer.add_embedding_length(HIDDEN)
        writer.add_block_count(BLOCKS)
        writer.add_feed_forward_length(FEED_FORWARD)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(key_heads)
        writer.add_key_length(head_width)
        writer.add_value_length(head_width)
        writer.add_layer_norm_eps(1e-5)
        if part == "alibi":
            writer.add_max_alibi_bias(8.0)
        else:
            writer.add_rope_dimension_count(head_width)
            writer.add_sliding_window(100)
        if part == "softcap":
            writer.add_attn_logit_softcapping(2.0)
        if part == "sinks":
            writer.add_expert_count(EXPERTS)
            writer.add_expert_used_count(1)
            writer.add_expert_feed_forward_length(FEED_FORWARD)

    shapes = {"token_embd.weight": (len(tiny_tokenizer().tokens), HIDDEN), "output_norm.weight": (HIDDEN,)}
    if part == "sinks":
        shapes["output.weight"] = shapes["token_embd.weight"]
    for block in range(BLOCKS):
        of_block = _block(part, HEADS * head_width, key_heads * head_width)
        shapes |= {f"blk.{block}.{name}": shape for name, shape in of_block.items()}
    random = np.random.default_rng(2)
    tensors = ((name, _weights(name, shape, random), "F32") for name, shape in shapes.items())
    return write_model(folder / f"{part}.gguf", architecture, add_keys, tensors)


def _block(part, query_width, key_width):
    """Shapes of numpy: those of ggml reversed."""
    shapes = {"attn_norm.weight": (HIDDEN,), "attn_output.weight": (HIDDEN, query_width)}
    if part == "alibi":
        shapes |= {"attn_qkv.weight": (query_width + 2 * key_width, HIDDEN), "ffn_norm.weight": (HIDDEN,)}
        return shapes | {f"{name}.weight": MATRICES[name] for name in ("ffn_up", "ffn_down")}
    shapes["post_attention_norm.weight"] = (HIDDEN,)
    for name, width in (("attn_q", query_width), ("attn_k", key_width), ("attn_v", key_width)):
        shapes[f"{name}.weight"] = (width, HIDDEN)
    if part == "softcap":
        shapes |= {"ffn_norm.weight": (HIDDEN,), "post_ffw_norm.weight": (HIDDEN,)}
        return shapes | {f"{name}.weight": shape for name, shape in MATRICES.items()}
    shapes |= {"attn_sinks.weight": (HEADS,), "attn_output.bias": (HIDDEN,)}
    shapes |= {"ffn_gate_inp.weight": (EXPERTS, HIDDEN), "ffn_gate_inp.bias": (EXPERTS,)}
    for name, shape in MATRICES.items():
        shapes |= {f"{name}_exps.weight": (EXPERTS, *shape), f"{name}_exps.bias": (EXPERTS, shape[0])}
    return shapes


def _weights(name, shape, random):
    if name.endswith("norm.weight"):
        return np.ones(shape, np.float32)
    deviation = 1.0 if name.startswith("token_embd") or len(shape) == 1 else 1.5 / np.sqrt(shape[-1])
    return (deviation * random.standard_normal(shape)).astype(np.float32)
