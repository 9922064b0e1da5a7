"""Hypothesis strategies for broken files: real ones with a few pieces changed, or a few bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import attrs
from file_parts import Pair, Parts, Tensor
from hypothesis import strategies as st

from power_core.artifacts.values import STRUCT_CODES, ValueType
from power_core.testing.headers import text

Draw = st.DrawFn
Item = TypeVar("Item")
Change: TypeAlias = Callable[[Draw, Item, Sequence[Item]], Item]
EXTREMES = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512, 1024, 4096),
    *(2**15, 2**16 - 1, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-6, 3.4e38, 10_000.0, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    b"",
    b"a",
    b"a b",
    b"\0",
    b"\xff",
    b"a\0b",
    b"none",
    b"yarn",
    b"gpt2",
    b"llama",
    b"bert",
    b"t5",
    b"rwkv",
    b"plamo2",
)
READ_KEYS = (
    *("vocab_size", "feed_forward_length", "embedding_length_out", "leading_dense_block_count", "pooling_type"),
    *("expert_count", "expert_used_count", "expert_feed_forward_length", "expert_group_count", "expert_gating_func"),
    *("attention.causal", "attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "attention.key_length"),
    *("attention.value_length", "attention.key_length_swa", "attention.value_length_swa", "attention.sliding_window"),
    *("attention.sliding_window_pattern", "attention.recurrent_layers", "attention.shared_kv_layers"),
    *("attention.head_count_kv", "attention.layer_norm_epsilon", "attention.temperature_scale", "logit_scale"),
    *("attn_logit_softcapping", "final_logit_softcapping", "full_attention_interval", "nextn_predict_layers"),
    *("rope.dimension_count", "rope.dimension_count_swa", "rope.dimension_sections", "rope.freq_base_swa"),
    *("rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scale_linear"),
    *("rope.scaling.attn_factor", "rope.scaling.yarn_log_multiplier", "rope.scaling.finetuned"),
    *("ssm.group_count", "ssm.state_size", "classifier.output_labels", "dense_2_feat_out", "tensor_data_layout"),
)
READ_GENERAL_KEYS = (
    *("general.file_type", "general.alignment", "split.count", "split.no", "tokenizer.ggml.scores"),
    *(
        f"tokenizer.ggml.{name}"
        for name in (
            *("bos_token_id", "eot_token_id", "unknown_token_id", "cls_token_id", "fim_pre_token_id"),
            *("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix", "remove_extra_whitespaces"),
            *("precompiled_charsmap", "suppress_tokens", "token_type_count", "normalizer.lowercase"),
        )
    ),
)
TYPE_IDS = (*range(14), 200, 2**32 - 1)
TENSOR_TYPE_IDS = (*range(43), 200, 2**32 - 1)


@st.composite
def broken_parts(draw: Draw, parts: Parts, *, mutations: int = 3) -> Parts:
    """Change one to ``mutations`` pieces; mostly, tensors are laid out anew, so that the file stays whole."""
    for _ in range(draw(st.integers(1, mutations))):
        parts = draw(st.sampled_from(CHANGES))(draw, parts)
    return parts.laid_out() if draw(st.integers(0, 3)) else parts


@st.composite
def broken_bytes(draw: Draw, content: bytes) -> bytes:
    """Flip, insert, delete, repeat or cut bytes at one to four places, seldom in the magic, version and counts."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        first = min(draw(st.sampled_from((24, 24, 24, 24, 8, 0))), len(changed))
        start = draw(st.integers(first, len(changed)))
        end = min(len(changed), start + draw(st.integers(1, 64)))
        match draw(st.sampled_from(("set", "set", "flip", "flip", "insert", "delete", "splice", "cut"))):
            case "set":
                changed[start : start + 1] = draw(st.binary(min_size=1, max_size=1))
            case "flip":
                changed[start : start + 1] = bytes(
                    byte ^ 1 << draw(st.integers(0, 7)) for byte in changed[start : start + 1]
                )
            case "insert":
                changed[start:start] = draw(st.binary(min_size=1, max_size=16))
            case "delete":
                del changed[start:end]
            case "splice":
                to = draw(st.integers(0, len(changed)))
                changed[to:to] = changed[start:end]
            case "cut":
                del changed[start:]
    return bytes(changed)


def _change_list(
    draw: Draw, items: Sequence[Item], change: Callable[[Draw, Item, Sequence[Item]], Item]
) -> tuple[Item, ...]:
    """Drop, repeat, swap or, mostly, change one item."""
    if not items:
        return ()
    changed = list(items)
    at, other = (draw(st.integers(0, len(items) - 1)) for _ in range(2))
    match draw(st.sampled_from(("change", "change", "change", "change", "drop", "repeat", "swap"))):
        case "drop":
            del changed[at]
        case "repeat":
            changed.insert(other, changed[at])
        case "swap":
            changed[at], changed[other] = changed[other], changed[at]
        case _:
            changed[at] = change(draw, changed[at], items)
    return tuple(changed)


def _change_pairs(draw: Draw, parts: Parts) -> Parts:
    return attrs.evolve(parts, pairs=_change_list(draw, parts.pairs, _change_pair))


def _change_tensors(draw: Draw, parts: Parts) -> Parts:
    return attrs.evolve(parts, tensors=_change_list(draw, parts.tensors, _change_tensor))


def _change_counts(draw: Draw, parts: Parts) -> Parts:
    field = draw(st.sampled_from(("pair_count", "tensor_count", "version")))
    value = draw(st.sampled_from(EXTREMES))
    return attrs.evolve(parts, **{field: value % 2**32 if field == "version" else value})


def _add_pair(draw: Draw, parts: Parts) -> Parts:
    """Add a key that the library reads and the file lacks, of any type: one value, or an array of equal ones."""
    known = next((pair.key for pair in parts.pairs if pair.key.endswith(b".block_count")), b"x.block_count")
    prefix = known.removesuffix(b"block_count").decode("utf-8", "replace")
    key = draw(st.sampled_from([prefix + name for name in READ_KEYS] + list(READ_GENERAL_KEYS)))
    value_type = draw(st.sampled_from([item for item in ValueType if item is not ValueType.ARRAY]))
    body, type_id = _value(draw, value_type, b""), int(value_type)
    if draw(st.booleans()):
        count = draw(st.sampled_from((0, 1, 2, 4, 5, 6, 512)))
        type_id, body = int(ValueType.ARRAY), struct.pack("<IQ", type_id, count) + body * count
    return attrs.evolve(parts, pairs=(*parts.pairs, Pair(key.encode(), type_id, body)))


def _change_data(draw: Draw, parts: Parts) -> Parts:
    """Fill the start of a tensor with bytes that are weights of any kind: zeros, not a number, large, random."""
    if not parts.tensors or not parts.data:
        return parts
    start = draw(st.sampled_from(parts.tensors)).offset_bytes % len(parts.data)
    pattern = draw(st.sampled_from((b"\0", b"\xff", b"\x7f\x7f\x80\x7f")) | st.binary(min_size=1, max_size=8))
    size_bytes = draw(st.sampled_from((1, 8, 64, 1024, 16_384)))
    filled = (pattern * size_bytes)[:size_bytes]
    return attrs.evolve(parts, data=(parts.data[:start] + filled + parts.data[start + size_bytes :])[: len(parts.data)])


CHANGES = (_change_data, _add_pair, _add_pair, *[_change_pairs] * 8, *[_change_tensors] * 8, _change_counts)


def _change_pair(draw: Draw, pair: Pair, pairs: Sequence[Pair]) -> Pair:
    match draw(st.sampled_from(("value", "value", "value", "value", "value", "key", "type", "exchange"))):
        case "key":
            return attrs.evolve(pair, key=_change_name(draw, pair.key, [item.key for item in pairs]))
        case "type":
            return attrs.evolve(pair, type_id=draw(st.sampled_from(TYPE_IDS)))
        case "exchange":
            other = draw(st.sampled_from(pairs))
            return attrs.evolve(pair, type_id=other.type_id, body=other.body)
        case _:
            return _change_value(draw, pair)


def _change_value(draw: Draw, pair: Pair) -> Pair:
    if pair.type_id == ValueType.ARRAY:
        return attrs.evolve(pair, body=_change_array(draw, pair.body))
    value_type = ValueType(pair.type_id) if pair.type_id in tuple(ValueType) else ValueType.UINT32
    if draw(st.integers(0, 5)) == 0:
        value_type = draw(st.sampled_from([item for item in ValueType if item is not ValueType.ARRAY]))
    return attrs.evolve(pair, type_id=int(value_type), body=_value(draw, value_type, pair.body))


def _change_array(draw: Draw, body: bytes) -> bytes:
    element_id, count = struct.unpack_from("<IQ", body)
    choice = draw(st.sampled_from(("count", "element", "longer", "shorter", "type", "empty")))
    if choice == "count":
        return (
            struct.pack("<IQ", element_id, draw(st.sampled_from((*EXTREMES, count + 1, max(count - 1, 0))))) + body[12:]
        )
    if choice == "type":
        return struct.pack("<IQ", draw(st.sampled_from(TYPE_IDS)), count) + body[12:]
    if choice == "empty" or element_id not in tuple(ValueType) or element_id == ValueType.ARRAY:
        return struct.pack("<IQ", element_id, 0)
    elements = _elements(ValueType(element_id), body)
    if choice == "longer" or not elements:
        elements.append(_value(draw, ValueType(element_id), b""))
    elif choice == "shorter":
        del elements[draw(st.integers(0, len(elements) - 1)) :]
    else:
        at = draw(st.integers(0, len(elements) - 1))
        elements[at] = draw(
            st.sampled_from((_value(draw, ValueType(element_id), b""), draw(st.sampled_from(elements))))
        )
    return struct.pack("<IQ", element_id, len(elements)) + b"".join(elements)


def _elements(element_type: ValueType, body: bytes) -> list[bytes]:
    position, elements = 12, []
    while position < len(body):
        if element_type is ValueType.STRING:
            size_bytes = 8 + int.from_bytes(body[position : position + 8], "little")
        else:
            size_bytes = struct.calcsize(STRUCT_CODES[element_type])
        elements.append(body[position : position + size_bytes])
        position += size_bytes
    return elements


def _value(draw: Draw, value_type: ValueType, old: bytes) -> bytes:
    if value_type is ValueType.STRING:
        return text(draw(st.sampled_from(TEXTS) | st.binary(max_size=6)))
    if value_type in (ValueType.FLOAT32, ValueType.FLOAT64):
        return struct.pack(f"<{STRUCT_CODES[value_type]}", draw(st.sampled_from(FLOATS)))
    size_bytes = struct.calcsize(STRUCT_CODES[value_type])
    before = int.from_bytes(old[:size_bytes], "little")
    near = (before + 1, before - 1, before * 2, before // 2, before * 3)
    value = draw(st.sampled_from(EXTREMES) | st.sampled_from(near) | st.integers(0, 255))
    return (value % 2 ** (8 * size_bytes)).to_bytes(size_bytes, "little")


def _change_tensor(draw: Draw, tensor: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    match draw(st.sampled_from(("shape", "shape", "type", "name", "offset", "exchange"))):
        case "shape":
            return attrs.evolve(tensor, shape=_change_shape(draw, tensor.shape))
        case "type":
            return attrs.evolve(tensor, type_id=draw(st.sampled_from(TENSOR_TYPE_IDS)))
        case "name":
            return attrs.evolve(tensor, name=_change_name(draw, tensor.name, [item.name for item in tensors]))
        case "exchange":
            other = draw(st.sampled_from(tensors))
            return attrs.evolve(tensor, shape=other.shape, type_id=other.type_id)
        case _:
            return attrs.evolve(tensor, offset_bytes=draw(st.sampled_from(EXTREMES)) % 2**64)


def _change_shape(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    changed = list(shape)
    match draw(st.sampled_from(("extent", "extent", "extent", "turn", "longer", "shorter"))):
        case "turn":
            changed.reverse()
        case "longer":
            changed.insert(draw(st.integers(0, len(changed))), draw(st.sampled_from((1, 1, 2, 0))))
        case "shorter":
            changed.pop()
        case _ if changed:
            at = draw(st.integers(0, len(changed) - 1))
            near = (changed[at] + 1, changed[at] - 1, changed[at] * 2, changed[at] // 2, changed[at] + 32)
            changed[at] = draw(st.sampled_from(EXTREMES) | st.sampled_from(near)) % 2**64
        case _:
            changed.append(1)
    return tuple(changed)


def _change_name(draw: Draw, name: bytes, names: Sequence[bytes]) -> bytes:
    """Another one's name, another block's, or a character more, fewer or else."""
    choice = draw(st.sampled_from(("other", "digit", "byte", "longer", "shorter")))
    if choice == "other":
        return draw(st.sampled_from(names))
    if choice == "longer":
        return name + draw(st.sampled_from((b"\0", b"x", b".weight", b".bias", b"\xff")))
    at = draw(st.integers(0, max(len(name) - 1, 0)))
    digits = [index for index, byte in enumerate(name) if 48 <= byte <= 57]
    if choice == "digit" and digits:
        at = draw(st.sampled_from(digits))
        return name[:at] + b"%d" % draw(st.sampled_from((0, 1, 2, 3, 4, 5, 9, 99, 4711))) + name[at + 1 :]
    return name[:at] + (b"" if choice == "shorter" else draw(st.binary(min_size=1, max_size=1))) + name[at + 1 :]
