"""Drafts with a wrong key: of the layout, of the rotation and window, of the tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterator

from artifact_cases import ArtifactCase
from draft_faults import (
    BOOL,
    F32,
    I32,
    I64,
    STRING,
    U32,
    broken,
    key,
)

from power_core.artifacts.gguf import ValueType
from power_core.testing.draft_headers import TOKENS, minimal_draft


def missing_keys() -> Iterator[ArtifactCase]:
    """Every layout key of every kind, left out."""
    optional = ("dflash.target_layers",)
    seen = set()
    for kind in ("dflash", "dflash2", "dspark"):
        for name in minimal_draft(kind).keys:
            if not name.startswith("dflash.") or name in seen or name in optional:
                continue
            seen.add(name)
            suffix = name.removeprefix("dflash.")
            yield broken(
                f"draft-without-{suffix.replace('.', '-').replace('_', '-')}",
                f"`{name}` is missing",
                suffix,
                lambda draft, name=name: draft.without_key(name),  # type: ignore[misc]
                kind,
            )


KEY_CASES = (
    *missing_keys(),
    key("dflash.block_size", "is 1", "block_size", U32, 1),
    key("dflash.block_size", "is longer than any in use", "block_size", U32, 1025),
    key("dflash.block_size", "is stored as UINT64", "block_size", ValueType.UINT64, 4),
    key("dflash.block_count", "is 513", "block_count", U32, 513),
    key("dflash.attention.head_count_kv", "does not divide the heads", "head_groups", U32, 3),
    key("dflash.attention.value_length", "differs from the key length", "head_widths", U32, 32),
    key("dflash.attention.layer_norm_rms_epsilon", "is NaN", "attention.layer_norm_rms_epsilon", F32, math.nan),
    key("dflash.rope.freq_base", "is 0", "rope.freq_base", F32, 0.0),
    *(
        key(f"dflash.{suffix}", fault, suffix, F32, value)
        for suffix, fault, value in (
            ("embedding_scale", "is infinite", math.inf),
            ("attention.scale", "is NaN", math.nan),
            ("attention.value_scale", "is negative", -1.0),
            ("logit_scale", "is 0", 0.0),
            ("final_logit_softcapping", "is NaN", math.nan),
            ("rope.scaling.factor", "is infinite", math.inf),
            ("rope.scaling.attn_factor", "is NaN", math.nan),
            ("rope.scaling.yarn_ext_factor", "is -2", -2.0),
            ("rope.scaling.yarn_attn_factor", "is NaN", math.nan),
            ("rope.scaling.yarn_beta_fast", "is NaN", math.nan),
            ("rope.scaling.yarn_beta_slow", "is NaN", math.nan),
        )
    ),
    key("dflash.rope.scaling.original_context_length", "is 0", "rope.scaling.original_context_length", U32, 0),
    key("dflash.rope.scaling.finetuned", "is no boolean", "rope.scaling.finetuned", U32, 1),
    key("dflash.rope.scaling.type", "is longrope", "rope.scaling.type", STRING, "longrope"),
    key("dflash.attention.causal", "is no boolean", "attention.causal", U32, 1),
    key("dflash.hidden_activation", "is relu", "hidden_activation", STRING, "relu"),
    key("dflash.rope.dimension_count", "is 0", "rope.dimension_count", U32, 0),
    key("dflash.rope.dimension_count", "is odd", "rope_dimensions", U32, 7),
    key(
        "dflash.rope.dimension_sections", "rotates more than the temporal dimension", "rope_sections", I32, (3, 3, 2, 0)
    ),
    key("dflash.attention.sliding_window", "is stored as INT64", "attention.sliding_window", I64, 16),
    key("dflash.attention.sliding_window", "has no pattern", "sliding_window_pattern", U32, 16),
    key("dflash.attention.sliding_window_pattern", "has no window", "sliding_window_unused", BOOL, (True, False)),
    broken(
        "draft-sliding-window-pattern-of-numbers",
        "`dflash.attention.sliding_window_pattern` is an array of UINT32",
        "sliding_window_pattern",
        lambda draft: draft.with_key("dflash.attention.sliding_window", U32, 16).with_key(
            "dflash.attention.sliding_window_pattern", U32, (1, 0)
        ),
    ),
    broken(
        "draft-sliding-window-pattern-too-short",
        "`dflash.attention.sliding_window_pattern` has fewer elements than blocks",
        "sliding_window_pattern",
        lambda draft: draft.with_key("dflash.attention.sliding_window", U32, 16).with_key(
            "dflash.attention.sliding_window_pattern", BOOL, (True,)
        ),
    ),
    broken(
        "draft-sliding-window-of-no-block",
        "`dflash.attention.sliding_window_pattern` gives the window to no block",
        "sliding_window_pattern",
        lambda draft: draft.with_key("dflash.attention.sliding_window", U32, 16).with_key(
            "dflash.attention.sliding_window_pattern", BOOL, (False, False)
        ),
    ),
    broken(
        "draft-rotation-factors-beside-sections",
        "`rope_freqs.weight` beside M-RoPE sections, which the graph would ignore",
        "rope_factors",
        lambda draft: draft.with_key("dflash.rope.dimension_sections", I32, (8, 0, 0, 0)).with_tensor(
            "rope_freqs.weight", (8,)
        ),
    ),
    broken(
        "draft-without-target-layers",
        "`dflash.target_layers` is missing",
        "target_layers_missing",
        lambda draft: draft.without_key("dflash.target_layers"),
    ),
    *(
        key("dflash.target_layers", fault, f"target_layers_{rule}", value_type, values)
        for rule, fault, value_type, values in (
            ("empty", "is empty", U32, ()),
            ("type", "is an array of FLOAT32", F32, (0.0, 2.0)),
            ("type", "is a single number", U32, 2),
            ("count", "has 513 elements", U32, tuple(range(513))),
            ("negative", "holds -1", I32, (-1, 2)),
            ("repeated", "names a layer twice", U32, (2, 2)),
            ("unsorted", "is not in ascending order", U32, (2, 0)),
            ("width", "has another length than fc.weight reads", U32, (0, 1, 2)),
        )
    ),
)

TOKENIZER_CASES = (
    broken(
        "draft-without-mask-token",
        "`tokenizer.ggml.mask_token_id` is missing",
        "mask_token",
        lambda draft: draft.without_key("tokenizer.ggml.mask_token_id"),
    ),
    *(
        key(f"tokenizer.ggml.{name}_token_id", "is outside the vocabulary", f"{name}_token_id", U32, len(TOKENS))
        for name in ("mask", "bos", "eos", "eot", "eom", "unknown", "seperator", "padding")
    ),
    key("general.name", "is no string", "fixed_types", U32, 1),
    key("tokenizer.ggml.model", "is no string", "tokenizer_model", U32, 1),
    key("tokenizer.ggml.model", "is not known", "tokenizer_known", STRING, "bpe-9"),
    key("tokenizer.ggml.tokens", "repeats a token", "tokenizer_tokens", STRING, ("a", "b", "a", "<end>")),
    key("tokenizer.ggml.tokens", "holds a huge token", "tokenizer_token_bytes", STRING, ("a", "b", "c" * 70_000, "d")),
    key("tokenizer.ggml.token_type", "is too short", "tokenizer_token_type", I32, (1,)),
    key("tokenizer.ggml.scores", "is too short", "tokenizer_scores", F32, (1.0,)),
    key("tokenizer.ggml.merges", "holds no pair", "tokenizer_merges", STRING, ("ab",)),
    key("tokenizer.ggml.add_eos_token", "is no boolean", "tokenizer_add_eos_token", U32, 1),
    broken(
        "draft-tokenizer-add-bos-token-is-no-boolean",
        "`tokenizer.ggml.add_bos_token`: is no boolean",
        "tokenizer_add_bos_token",
        lambda draft: draft.with_key("tokenizer.ggml.bos_token_id", U32, 0).with_key(
            "tokenizer.ggml.add_bos_token", U32, 1
        ),
    ),
    broken(
        "draft-inserts-unknown-bos",
        "the tokenizer puts BOS before a text, and `tokenizer.ggml.bos_token_id` is missing",
        "bos_token_inserted",
        lambda draft: draft.without_key("tokenizer.ggml.add_bos_token"),
    ),
    broken(
        "draft-asks-for-unknown-eos",
        "`tokenizer.ggml.add_eos_token` is true, and `tokenizer.ggml.eos_token_id` is missing",
        "add_eos_token_id",
        lambda draft: draft.without_key("tokenizer.ggml.eos_token_id").with_key(
            "tokenizer.ggml.add_eos_token", BOOL, True
        ),
    ),
)
