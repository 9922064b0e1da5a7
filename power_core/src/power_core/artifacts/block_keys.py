"""Keys of a block draft that all kinds have in common. Bounds are those of the loader, or keep its sizes in 32 bits."""

from __future__ import annotations

import attrs

from power_core.artifacts.block_layout import FUSION, MAPPING, TOKENS_KEY
from power_core.artifacts.block_tensors import BlockSizes
from power_core.artifacts.key_checks import ArchitectureKeys
from power_core.artifacts.target_checks import MAX_BLOCKS, MAX_CONTEXT, MAX_WIDTH
from power_core.artifacts.values import StringArray, ValueType

MAX_HEADS = 4096
MAX_BLOCK_SIZE = 1024
ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh")
SCALING_TYPES = ("none", "linear", "yarn")
SCALES = (
    *("embedding_scale", "attention.scale", "attention.value_scale"),
    *("logit_scale", "final_logit_softcapping"),
)
SCALING_NUMBERS = {
    "rope.scaling.factor": 0.0,
    "rope.scaling.attn_factor": 0.0,
    "rope.scaling.yarn_ext_factor": -1.0,
    "rope.scaling.yarn_attn_factor": 0.0,
    "rope.scaling.yarn_beta_fast": 0.0,
    "rope.scaling.yarn_beta_slow": 0.0,
}
KNOWN_KEYS = (
    *("context_length", "embedding_length", "block_count", "feed_forward_length", "block_size", "target_layers"),
    *("attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length"),
    *("attention.layer_norm_rms_epsilon", "attention.causal"),
    *("attention.sliding_window", "attention.sliding_window_pattern"),
    *("rope.freq_base", "rope.dimension_count", "rope.dimension_sections"),
    *("rope.scaling.type", "rope.scaling.original_context_length", "rope.scaling.finetuned"),
    *("hidden_activation", *SCALES, *SCALING_NUMBERS),
)
"""Every key that the graph of the family obeys, or that says nothing about the graph."""


@attrs.frozen(kw_only=True)
class _Heads:
    heads: int
    key_heads: int
    width: int


def check_keys(keys: ArchitectureKeys) -> BlockSizes | None:
    """Add the checks of every shared key; return the sizes when those that shapes follow from are right."""
    hidden = keys.required("embedding_length", MAX_WIDTH)
    blocks = keys.required("block_count", MAX_BLOCKS)
    feed_forward = keys.required("feed_forward_length", MAX_WIDTH)
    keys.required("context_length", MAX_CONTEXT)
    block_size = keys.required("block_size", MAX_BLOCK_SIZE, minimum=2)
    heads = _check_heads(keys)
    target_layers = _check_target_layers(keys, hidden)
    _check_numbers(keys)
    if heads is not None:
        _check_rotation(keys, heads.width)
    _check_window(keys, blocks)
    tokens = keys.header.get(TOKENS_KEY)
    if not hidden or not blocks or not feed_forward or not block_size or not heads or not target_layers:
        return None
    if not isinstance(tokens, StringArray) or not tokens:
        return None
    mapping = keys.header.tensors.get(MAPPING)
    return BlockSizes(
        hidden=hidden,
        blocks=blocks,
        feed_forward=feed_forward,
        heads=heads.heads,
        key_heads=heads.key_heads,
        head_width=heads.width,
        target_layers=target_layers,
        vocabulary=len(tokens),
        draft_vocabulary=len(tokens) if mapping is None else mapping.shape[0],
        block_size=block_size,
    )


def _check_heads(keys: ArchitectureKeys) -> _Heads | None:
    heads = keys.required("attention.head_count", MAX_HEADS)
    groups = keys.required("attention.head_count_kv", MAX_HEADS)
    key_width = keys.required("attention.key_length", MAX_WIDTH)
    value_width = keys.required("attention.value_length", MAX_WIDTH)
    if heads is None or groups is None or key_width is None or value_width is None:
        return None
    keys.checks.add(
        "head_widths",
        key_width == value_width and key_width % 2 == 0,
        f"{keys.name('attention.key_length')} is {key_width}, attention.value_length is {value_width}",
        expected="equal and even",
        actual=(key_width, value_width),
    )
    keys.checks.add(
        "head_groups",
        heads % groups == 0,
        f"{heads} heads share {groups} key/value heads",
        expected="head_count a multiple of head_count_kv",
        actual=(heads, groups),
    )
    return _Heads(heads=heads, key_heads=groups, width=key_width)


def _check_target_layers(keys: ArchitectureKeys, hidden: int | None) -> int | None:
    """Return how many layers of the target are read.

    Unsorted layers are refused: no converter of the pinned llama.cpp writes them so, and such a list has been the mark
    of a guessed one.

    Source: bugs.md B082.
    """
    key, header, checks = keys.name("target_layers"), keys.header, keys.checks
    if not checks.add(
        "target_layers_missing",
        key in header.metadata,
        f"the key '{key}' {'exists' if key in header.metadata else 'is missing: it is required, and not guessable'}",
        expected=key,
    ):
        return None
    layers, element = header.get(key), header.element_type(key)
    integers = element in (ValueType.UINT32, ValueType.INT32)
    checks.add(
        "target_layers_type",
        integers,
        f"'{key}' is stored as {f'array of {element.name}' if element else header.value_type(key).name}",
        expected="array of UINT32 or INT32",
        actual=element,
    )
    if not integers or not isinstance(layers, tuple):
        return None
    numbers = tuple(int(layer) for layer in layers)
    rules = (
        ("empty", len(numbers) > 0, "at least one layer"),
        ("count", len(numbers) <= MAX_BLOCKS, f"at most {MAX_BLOCKS} layers"),
        ("negative", all(layer >= 0 for layer in numbers), "no negative layer"),
        ("repeated", len(set(numbers)) == len(numbers), "different layers"),
        ("unsorted", list(numbers) == sorted(numbers), "layers in ascending order"),
    )
    for name, passed, expected in rules:
        message = f"'{key}' is {numbers[:16]}"
        checks.add(f"target_layers_{name}", passed, message, expected=expected, actual=numbers[:16])
    return _check_fusion_width(keys, hidden, len(numbers)) if numbers else None


def _check_fusion_width(keys: ArchitectureKeys, hidden: int | None, layers: int) -> int:
    fusion = keys.header.tensors.get(FUSION)
    if fusion is not None and hidden is not None:
        keys.checks.add(
            "target_layers_width",
            fusion.shape[0] == layers * hidden,
            f"'{FUSION}' reads {fusion.shape[0]} values, {layers} target layers of width {hidden} are "
            f"{layers * hidden}",
            expected=layers * hidden,
            actual=fusion.shape[0],
        )
    return layers


def _check_numbers(keys: ArchitectureKeys) -> None:
    keys.check_float("attention.layer_norm_rms_epsilon", minimum=0.0, required=True)
    keys.check_float("rope.freq_base", minimum=0.0, above=True, required=True)
    for suffix in SCALES:
        keys.check_float(suffix, minimum=0.0, above=True)
    for suffix, minimum in SCALING_NUMBERS.items():
        keys.check_float(suffix, minimum=minimum)
    keys.optional("rope.scaling.original_context_length", maximum=MAX_CONTEXT)
    for suffix in ("attention.causal", "rope.scaling.finetuned"):
        if keys.has(suffix):
            keys.flag(suffix)
    for suffix, allowed in (("hidden_activation", ACTIVATIONS), ("rope.scaling.type", SCALING_TYPES)):
        value = keys.header.get(
            keys.name(suffix),
        )
        if keys.has(suffix):
            keys.checks.add(
                suffix, value in allowed, f"{keys.name(suffix)} is {value!r}", expected=allowed, actual=value
            )


def _check_rotation(keys: ArchitectureKeys, head_width: int) -> None:
    rotated = (
        keys.optional("rope.dimension_count", maximum=MAX_WIDTH) if keys.has("rope.dimension_count") else head_width
    )
    if rotated is not None and keys.has("rope.dimension_count"):
        keys.checks.add(
            "rope_dimensions",
            rotated % 2 == 0 and rotated <= head_width,
            f"{keys.name('rope.dimension_count')} is {rotated}, for heads {head_width} wide",
            expected=f"an even number of at most {head_width}",
            actual=rotated,
        )
    if not keys.has("rope.dimension_sections") or rotated is None:
        return
    sections = keys.header.get(keys.name("rope.dimension_sections"))
    halves = {rotated // 2, head_width // 2}
    keys.checks.add(
        "rope_sections",
        sections in {(half, 0, 0, 0) for half in halves},
        f"{keys.name('rope.dimension_sections')} is {sections}",
        expected=f"[{' or '.join(map(str, sorted(halves)))}, 0, 0, 0]: a draft follows the temporal dimension alone",
        actual=sections,
    )
    factors = "rope_freqs.weight"
    keys.checks.add(
        "rope_factors",
        factors not in keys.header.tensors,
        f"'{factors}' {'exists' if factors in keys.header.tensors else 'is absent'}, beside M-RoPE sections",
        expected="no rotation factors: the graph ignores them with M-RoPE",
    )


def _check_window(keys: ArchitectureKeys, blocks: int | None) -> None:
    window = keys.optional("attention.sliding_window", minimum=0, maximum=MAX_CONTEXT)
    key = keys.name("attention.sliding_window_pattern")
    if not window:
        keys.checks.add(
            "sliding_window_unused",
            key not in keys.header.metadata,
            f"'{key}' {'exists' if key in keys.header.metadata else 'is absent'}, and there is no sliding window",
            expected="a pattern only beside 'attention.sliding_window' above 0",
        )
        return
    pattern = keys.header.get(key)
    if not isinstance(pattern, tuple) or keys.header.element_type(key) is not ValueType.BOOL:
        pattern = ()
    keys.checks.add(
        "sliding_window_pattern",
        len(pattern) == blocks and any(pattern),
        f"'{key}' has {len(pattern)} booleans, {sum(map(bool, pattern))} of them true, for {blocks} blocks",
        expected=f"array of {blocks} BOOL, at least one true",
        actual=len(pattern),
    )
