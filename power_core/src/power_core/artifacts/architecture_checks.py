"""Keys that single architectures take for granted: their loaders divide by them or end the process on a wrong one.

Source: the loaders and graphs of llama.cpp at the pinned commit.
"""

from __future__ import annotations

from power_core.artifacts.key_checks import ArchitectureKeys

MAX_VALUE = 2**31 - 1

NEEDS_EXPERTS = (
    *("bailingmoe", "bailingmoe2", "cohere2moe", "dbrx", "glm4moe", "grok", "grovemoe", "lfm2moe", "llada-moe"),
    *("llama4", "maple", "mellum", "olmoe", "qwen2moe", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vlmoe"),
    *("qwen4exp", "rnd1", "smallthinker"),
)
"""Mixtures of experts without a dense form: the loader refuses, asserts, or divides by the number of used experts."""

EQUAL_HEAD_WIDTHS = (
    *("afmoe", "apertus", "arcee", "arctic", "baichuan", "bailingmoe2", "bitnet", "bloom", "chameleon"),
    *("chatglm", "codeshell", "cogvlm", "cohere2", "cohere2moe", "command-r", "dbrx", "deci", "deepseek"),
    *("dots1", "dream", "ernie4_5", "ernie4_5-moe", "exaone", "exaone-moe", "exaone4", "falcon", "gemma3"),
    *("glm4", "glm4moe", "gpt2", "gptneox", "granite", "granite_swa", "granitehybrid", "granitemoe"),
    *("graniteswitch", "grok", "grovemoe", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2"),
    *("jais2", "laguna", "lfm2", "lfm2moe", "llada", "llada-moe", "llama", "llama4", "maincoder", "maple"),
    *("mellum", "minimax-01", "minimax-m2", "minimax-m3", "mistral3", "mpt", "muse-glimmer", "nanbeige"),
    *("nemotron", "nemotron_h", "nemotron_h_moe", "olmo", "olmo2", "olmoe", "openelm", "orion", "paddleocr"),
    *("pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3"),
    *("qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "qwen4exp", "refact", "rnd1"),
    *("seed_oss", "smallthinker", "smollm3", "spark2_5", "stablelm", "starcoder", "starcoder2", "talkie"),
    *("xverse",),
)
"""Architectures whose graph asserts that keys and values are equally wide."""

ROTATES_WHOLE_HEAD = (
    *("apertus", "arcee", "arctic", "baichuan", "chameleon", "codeshell", "cogvlm", "cohere2moe", "dbrx"),
    *("deci", "deepseek", "dots1", "dream", "ernie4_5", "ernie4_5-moe", "exaone", "exaone-moe", "exaone4"),
    *("falcon", "granite", "granite_swa", "granitemoe", "graniteswitch", "grok", "grovemoe", "hunyuan-dense"),
    *("hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais2", "llada", "llada-moe", "llama", "llama4"),
    *("maincoder", "mellum", "mistral3", "olmo", "olmo2", "olmoe", "orion", "paddleocr", "pangu-embedded"),
    *("plamo", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "rnd1"),
    *("seed_oss", "smallthinker", "smollm3", "starcoder2", "talkie", "xverse"),
)
"""Architectures whose graph asserts that every dimension of a head is rotated."""

AT_LEAST = {
    "ernie4_5-moe": (("interleave_moe_layer_step", 1),),
    "grovemoe": (("experts_per_group", 1),),
    "lfm2": (("shortconv.l_cache", 2),),
    "lfm2moe": (("shortconv.l_cache", 2),),
}
"""Keys that must exist and be at least so large."""

GROUPED_STATE = ("falcon-h1", "granitehybrid", "mamba2", "nemotron_h", "nemotron_h_moe")
UNGROUPED_STATE = ("plamo2",)
DOUBLE_WIDTH_STATE = ("granitehybrid", "jamba", "mamba")
STATE_SPACE = (*GROUPED_STATE, *UNGROUPED_STATE, *DOUBLE_WIDTH_STATE)
EXPERTS_PER_BLOCK = ("nemotron_h", "nemotron_h_moe")


def check_architecture(keys: ArchitectureKeys, embedding_length: int | None, blocks: int | None) -> None:
    """Add the checks that the architecture needs beyond those of every target."""
    if keys.architecture in NEEDS_EXPERTS:
        _check_has_experts(keys)
    if keys.architecture in EXPERTS_PER_BLOCK and blocks is not None:
        _check_expert_width(keys, blocks)
    for suffix, minimum in AT_LEAST.get(keys.architecture, ()):
        keys.required(suffix, MAX_VALUE, minimum=minimum)
    if keys.architecture in STATE_SPACE:
        _check_state_space(keys, embedding_length)


def _check_has_experts(keys: ArchitectureKeys) -> None:
    count_key, used_key = keys.name("expert_count"), keys.name("expert_used_count")
    count, used = keys.header.get(count_key), keys.header.get(used_key)
    first = used[0] if isinstance(used, tuple) and used else used
    keys.checks.add(
        "has_experts",
        isinstance(count, int) and count > 0 and isinstance(first, int) and first > 0,
        f"{keys.architecture} is a mixture of experts; {count_key} is {count}, {used_key} is {used}",
        expected="both at least 1",
        actual=(count, used),
    )


def _check_expert_width(keys: ArchitectureKeys, blocks: int) -> None:
    """A block with experts derives their width from the number that it uses, unless a key holds the width."""
    if keys.header.get(keys.name("expert_count")) in (None, 0):
        return
    dense, used, widths = (
        _per_block(keys, suffix, blocks)
        for suffix in ("feed_forward_length", "expert_used_count", "expert_feed_forward_length")
    )
    if dense is None or used is None or widths is None:
        return
    bad = [block for block in range(blocks) if dense[block] > 0 and widths[block] == 0 and used[block] == 0]
    keys.checks.add(
        "expert_width",
        not bad,
        f"blocks with neither {keys.name('expert_feed_forward_length')} nor {keys.name('expert_used_count')}: "
        f"{bad[:8]}",
        expected="one of them above 0 in every block with experts",
        actual=bad[:8],
    )


def _per_block(keys: ArchitectureKeys, suffix: str, blocks: int) -> tuple[int, ...] | None:
    if not keys.has(suffix):
        return (0,) * blocks
    values = keys.per_block(suffix, blocks, required=True)
    return values * blocks if values is not None and len(values) == 1 else values


def _check_state_space(keys: ArchitectureKeys, embedding_length: int | None) -> None:
    inner = keys.required("ssm.inner_size", MAX_VALUE)
    if inner is None:
        return
    if keys.architecture in (*GROUPED_STATE, *UNGROUPED_STATE):
        _check_state_heads(keys, inner)
    if keys.architecture in DOUBLE_WIDTH_STATE and embedding_length is not None:
        keys.checks.add(
            "state_width",
            inner == 2 * embedding_length,
            f"{keys.name('ssm.inner_size')} is {inner}, {keys.name('embedding_length')} is {embedding_length}",
            expected=f"{2 * embedding_length}, twice the embedding length",
            actual=inner,
        )


def _check_state_heads(keys: ArchitectureKeys, inner: int) -> None:
    keys.required("ssm.conv_kernel", MAX_VALUE, minimum=2)
    heads = keys.required("ssm.time_step_rank", MAX_VALUE)
    grouped = keys.architecture in GROUPED_STATE
    groups = keys.required("ssm.group_count", MAX_VALUE if grouped else 0, minimum=1 if grouped else 0)
    if heads is None or groups is None:
        return
    keys.checks.add(
        "state_heads",
        inner % heads == 0 and inner % max(groups, 1) == 0,
        f"{keys.name('ssm.inner_size')} is {inner}, for {heads} heads in {groups} groups",
        expected=f"a multiple of {keys.name('ssm.time_step_rank')} and of {keys.name('ssm.group_count')}",
        actual=(inner, heads, groups),
    )
