"""Checks of a target model's header: what the loader needs, and what makes the native library end the process.

The library answers some broken files by aborting. Every such condition that a header can cause is checked here first.

Source: the asserts of llama.cpp at the pinned commit (hyper-parameters, vocabulary, rotary embedding, delta net), and
every key of three small models set to wrong values, with the library in a child process.
"""

from __future__ import annotations

import re

import attrs

from power_core.artifacts.architecture_checks import EQUAL_HEAD_WIDTHS, ROTATES_WHOLE_HEAD, check_architecture
from power_core.artifacts.fixed_types import check_fixed_types
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.key_checks import ArchitectureKeys
from power_core.artifacts.shards import merge_shards
from power_core.artifacts.tensor_checks import check_tensor_types
from power_core.artifacts.tokenizer_checks import check_tokenizer
from power_core.artifacts.validation import CheckList, ValidationReport
from power_core.artifacts.values import StringArray
from power_core.errors import ArtifactContractError

MAX_BLOCKS = 512
MAX_EXPERTS = 1024
MAX_WIDTH = 1 << 24
MAX_CONTEXT = 2**31 - 1
ROPE_SCALING_TYPES = ("none", "linear", "yarn", "longrope")
ATTENTION_FREE_PREFIXES = ("mamba", "rwkv", "arwkv")
DELTA_NET = ("qwen35", "qwen35moe", "qwen3next")
RECURRENT_INPUTS = ("attn_qkv.weight", "attn_gate.weight")
FUSED_RECURRENT_INPUTS = ("qwen3next",)
TRUNK_TENSOR = "blk.0.attn_norm.weight"
NEXTN_TENSORS = ("nextn.eh_proj.weight", "nextn.enorm.weight", "nextn.hnorm.weight")

_BLOCK_TENSOR = re.compile(r"blk\.(\d+)\.")


@attrs.frozen(kw_only=True)
class _Sizes:
    """Sizes that several checks share; None where the key is wrong."""

    embedding_length: int | None
    blocks: int | None
    nextn_layers: int


def check_target(header: GgufHeader) -> ValidationReport:
    """Check that a file can be loaded and decoded as a target. Shards of a split model are scanned too.

    Raises:
        ArtifactError: a shard of a split model is missing, damaged or foreign.
    """
    header = merge_shards(header)
    checks = CheckList("target")
    try:
        architecture = header.architecture
    except ArtifactContractError as error:
        checks.add_error("architecture", error, header.path)
        return checks.report("target", header.path)
    checks.add("architecture", True, f"general.architecture is {architecture!r}", actual=architecture)
    keys = ArchitectureKeys(header, architecture, checks)
    sizes = _check_sizes(keys)
    _check_heads(keys, sizes)
    _check_rotation(keys, _check_head_widths(keys, sizes))
    _check_experts(keys, sizes)
    if architecture in DELTA_NET:
        _check_delta_net(keys)
    check_architecture(keys, sizes.embedding_length, sizes.blocks)
    check_fixed_types(header, checks)
    check_tokenizer(header, checks)
    _check_embedding(keys, sizes)
    _check_blocks(keys, sizes)
    check_tensor_types(header, checks)
    return checks.report("target", header.path)


def _check_sizes(keys: ArchitectureKeys) -> _Sizes:
    embedding_length = keys.required("embedding_length", MAX_WIDTH)
    keys.required("context_length", MAX_CONTEXT)
    keys.optional("attention.sliding_window", minimum=0, maximum=MAX_WIDTH)
    for suffix in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        keys.check_float(suffix, minimum=0.0)
    blocks = keys.required("block_count", MAX_BLOCKS)
    keys.optional("nextn_predict_layers", minimum=0, maximum=MAX_BLOCKS)
    try:
        nextn_layers = keys.header.nextn_layers
    except ArtifactContractError as error:
        keys.checks.add_error("nextn_predict_layers", error, keys.header.path)
        nextn_layers = 0
    if blocks is not None and not keys.checks.add(
        "trunk_blocks",
        blocks > nextn_layers,
        f"{blocks} blocks, of which {nextn_layers} only predict ahead",
        expected="block_count above nextn_predict_layers",
        actual=(blocks, nextn_layers),
    ):
        blocks = None
    return _Sizes(embedding_length=embedding_length, blocks=blocks, nextn_layers=nextn_layers)


def _check_heads(keys: ArchitectureKeys, sizes: _Sizes) -> None:
    heads = keys.per_block("attention.head_count", sizes.blocks, required=True)
    groups = keys.per_block("attention.head_count_kv", sizes.blocks, required=False) or heads
    if not heads or not groups or keys.architecture.startswith(ATTENTION_FREE_PREFIXES):
        return
    keys.checks.add(
        "head_count",
        max(heads) > 0,
        f"{keys.name('attention.head_count')} is {_short(heads)}",
        expected="at least 1 head in some block",
        actual=_short(heads),
    )
    length = max(len(heads), len(groups))
    pairs = zip(heads * (length // len(heads)), groups * (length // len(groups)), strict=True)
    keys.checks.add(
        "head_groups",
        all(group == 0 or count % group == 0 for count, group in pairs),
        f"{_short(heads)} heads share {_short(groups)} key/value heads",
        expected="head_count a multiple of head_count_kv",
        actual=(_short(heads), _short(groups)),
    )


def _check_head_widths(keys: ArchitectureKeys, sizes: _Sizes) -> int | None:
    """Return the width of a key head, in elements."""
    heads = keys.header.get(keys.name("attention.head_count"))
    default = None
    if sizes.embedding_length is not None and isinstance(heads, int) and heads > 0:
        default = sizes.embedding_length // heads
    key_width = keys.optional("attention.key_length", maximum=MAX_WIDTH) or default
    value_width = keys.optional("attention.value_length", maximum=MAX_WIDTH) or default
    if keys.architecture in EQUAL_HEAD_WIDTHS:
        keys.checks.add(
            "head_widths",
            key_width == value_width,
            f"{keys.name('attention.key_length')} is {key_width}, attention.value_length is {value_width}",
            expected="equal widths",
            actual=(key_width, value_width),
        )
    return key_width


def _check_rotation(keys: ArchitectureKeys, key_width: int | None) -> None:
    scaling = keys.header.get(keys.name("rope.scaling.type"))
    if scaling is not None:
        keys.checks.add(
            "rope_scaling_type",
            scaling in ROPE_SCALING_TYPES,
            f"{keys.name('rope.scaling.type')} is {scaling!r}",
            expected=ROPE_SCALING_TYPES,
            actual=scaling,
        )
    for suffix in ("rope.freq_base", "rope.freq_base_swa"):
        keys.check_float(suffix, minimum=0.0, above=True)
    rotated = keys.optional("rope.dimension_count", maximum=MAX_WIDTH)
    if rotated is not None and key_width is not None:
        whole = keys.architecture in ROTATES_WHOLE_HEAD
        keys.checks.add(
            "rope_dimensions",
            rotated % 2 == 0 and (rotated == key_width if whole else rotated <= key_width),
            f"{keys.name('rope.dimension_count')} is {rotated}, for heads {key_width} wide",
            expected=f"{'all' if whole else 'an even number of at most'} {key_width}",
            actual=rotated,
        )
    sections = keys.per_block("rope.dimension_sections", 4, required=False)
    if sections is not None and key_width is not None:
        keys.checks.add(
            "rope_sections",
            0 < sum(sections) <= key_width,
            f"{keys.name('rope.dimension_sections')} is {sections}",
            expected=f"a sum of 1 to {key_width}",
            actual=sections,
        )


def _check_experts(keys: ArchitectureKeys, sizes: _Sizes) -> None:
    experts = keys.optional("expert_count", minimum=0, maximum=MAX_EXPERTS) or 0
    used = max(keys.per_block("expert_used_count", sizes.blocks, required=False) or (0,))
    keys.checks.add(
        "experts",
        0 < used <= experts if experts else used == 0,
        f"{keys.name('expert_used_count')} is {used}, {keys.name('expert_count')} is {experts}",
        expected="none, or 1 to expert_count",
        actual=(used, experts),
    )
    groups = keys.optional("expert_group_count", minimum=0) or 0
    used_groups = keys.optional("expert_group_used_count", minimum=0) or 0
    if groups > 0:
        divided = groups < experts and experts % groups == 0
        keys.checks.add(
            "expert_groups",
            divided and (groups == 1 or 0 < used_groups < groups),
            f"{used_groups} of {groups} expert groups are used with {experts} experts",
            expected="groups that divide the experts, fewer used than there are",
            actual=(used_groups, groups, experts),
        )


def _check_delta_net(keys: ArchitectureKeys) -> None:
    keys.optional("full_attention_interval", maximum=MAX_CONTEXT)
    kernel, state, groups, rank, inner = (
        keys.required(f"ssm.{name}", MAX_WIDTH)
        for name in ("conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size")
    )
    if kernel and state and groups and rank and inner:
        keys.checks.add(
            "delta_net",
            kernel > 1 and rank % groups == 0 and inner == state * rank,
            f"conv_kernel {kernel}, state_size {state}, group_count {groups}, time_step_rank {rank}, "
            f"inner_size {inner}",
            expected="conv_kernel > 1, group_count divides time_step_rank, inner_size = state_size * time_step_rank",
            actual=(kernel, state, groups, rank, inner),
        )
    _check_recurrent_blocks(keys)


def _check_recurrent_blocks(keys: ArchitectureKeys) -> None:
    """The library loads a recurrent block without its inputs and ends the process when it computes them."""
    names = keys.header.tensors.keys()
    bad = []
    for block in (name.removesuffix("ssm_out.weight") for name in names if name.endswith(".ssm_out.weight")):
        fused = f"{block}ssm_in.weight" in names and f"{block}attn_qkv.weight" not in names
        missing = [name for name in RECURRENT_INPUTS if block + name not in names]
        if missing and not (fused and keys.architecture in FUSED_RECURRENT_INPUTS):
            bad.append(block + missing[0])
    keys.checks.add(
        "recurrent_inputs",
        not bad,
        f"{len(bad)} recurrent blocks lack an input: {bad[:8]}",
        expected=RECURRENT_INPUTS,
        actual=bad[:8],
    )


def _check_embedding(keys: ArchitectureKeys, sizes: _Sizes) -> None:
    tensor = keys.header.tensors.get("token_embd.weight")
    tokens = keys.header.get("tokenizer.ggml.tokens")
    if tensor is None:
        keys.checks.add("token_embd", False, "token_embd.weight is missing", expected="token_embd.weight")
    elif sizes.embedding_length is not None and isinstance(tokens, StringArray):
        wanted = (sizes.embedding_length, len(tokens))
        keys.checks.add(
            "token_embd",
            tensor.shape == wanted,
            f"token_embd.weight has shape {tensor.shape}; width and vocabulary ask for {wanted}",
            expected=wanted,
            actual=tensor.shape,
        )


def _check_blocks(keys: ArchitectureKeys, sizes: _Sizes) -> None:
    if sizes.blocks is None:
        return
    matches = (_BLOCK_TENSOR.match(name) for name in keys.header.tensors)
    present = {int(match[1]) for match in matches if match}
    trunk_blocks = sizes.blocks - sizes.nextn_layers
    absent = [block for block in range(trunk_blocks) if block not in present]
    extra = sorted(block for block in present if block >= sizes.blocks)
    keys.checks.add(
        "blocks",
        not absent and not extra,
        f"block_count is {sizes.blocks}; blocks without tensors: {absent[:8]}; blocks beyond it: {extra[:8]}",
        expected=f"tensors for blocks 0 to {sizes.blocks - 1} and no other",
        actual=(absent[:8], extra[:8]),
    )
    if sizes.nextn_layers:
        keys.checks.add(
            "trunk",
            TRUNK_TENSOR in keys.header.tensors,
            f"{TRUNK_TENSOR} {'exists' if TRUNK_TENSOR in keys.header.tensors else 'is missing'}, beside MTP blocks",
            expected=f"{TRUNK_TENSOR}: without it the library takes every other tensor of the model for optional",
        )
    for block in range(trunk_blocks, sizes.blocks):
        missing = [name for name in NEXTN_TENSORS if f"blk.{block}.{name}" not in keys.header.tensors]
        if block not in present:
            message = f"declared MTP block {block} has no tensors"
        else:
            message = f"MTP block {block} lacks {missing}" if missing else f"MTP block {block} has its tensors"
        keys.checks.add("nextn_tensors", not missing, message, expected=NEXTN_TENSORS, actual=missing)


def _short(values: tuple[int, ...]) -> object:
    """Show equal per-block values as one."""
    return values[0] if len(set(values)) == 1 else values
