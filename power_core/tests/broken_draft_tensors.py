"""Drafts with a wrong tensor, or with the state of another kind."""

from __future__ import annotations

from pathlib import Path

from artifact_cases import ArtifactCase
from draft_faults import (
    BOOL,
    CONTRACT,
    STRING,
    U16,
    U32,
    VALIDATORS,
    broken,
    scan,
)

from power_core.testing.draft_headers import HIDDEN, DraftHeader, minimal_draft


def own_number(suffix: str, fault: str, check_id: str, number: int) -> ArtifactCase:
    """A DFlash2 draft with one wrong number."""
    return broken(
        f"dflash2-{check_id}".replace("_", "-"),
        fault,
        check_id,
        lambda draft: draft.with_key(f"dflash.{suffix}", U32, number),
        "dflash2",
    )


def shared_values(draft: DraftHeader) -> DraftHeader:
    """No value matrix, and both sandwich norms, in every block."""
    for block in range(2):
        draft = draft.without_tensor(f"blk.{block}.attn_v.weight")
        for name in ("post_attention_norm", "post_ffw_norm"):
            draft = draft.with_tensor(f"blk.{block}.{name}.weight", (HIDDEN,))
    return draft


def cut_after_scan(folder: Path) -> None:
    """The file shrinks between the scan of its header and the reading of its values."""
    header = scan(folder, "d.gguf", minimal_draft("dflash").with_mapping((0, 1, 2)).build())
    header.path.write_bytes(header.path.read_bytes()[:-16])
    VALIDATORS["dflash"].validate(header).raise_first()


FILE_CASES = (
    ArtifactCase(
        name="draft-of-another-architecture",
        fault="`general.architecture` is not `dflash`",
        attempt=lambda folder: (
            VALIDATORS["dflash"]
            .validate(
                scan(
                    folder,
                    "d.gguf",
                    minimal_draft("dflash").with_key("general.architecture", STRING, "qwen3").build(),
                )
            )
            .raise_first()
        ),
        code=CONTRACT,
        check_id="block.architecture",
    ),
    ArtifactCase(
        name="dspark-declared-as-dflash",
        fault="a DSpark draft checked as DFlash: it has a Markov head",
        attempt=lambda folder: (
            VALIDATORS["dflash"].validate(scan(folder, "d.gguf", minimal_draft("dspark").build())).raise_first()
        ),
        code=CONTRACT,
        check_id="block.kind",
    ),
    ArtifactCase(
        name="dflash2-declared-as-dspark",
        fault="a DFlash2 draft checked as DSpark: it has convolutions and a selector",
        attempt=lambda folder: (
            VALIDATORS["dspark"].validate(scan(folder, "d.gguf", minimal_draft("dflash2").build())).raise_first()
        ),
        code=CONTRACT,
        check_id="block.kind",
    ),
    broken(
        "draft-in-shards",
        "the draft is the first of two shards",
        "single_file",
        lambda draft: draft.with_key("split.count", U16, 2),
    ),
    broken(
        "draft-with-deepseek-backbone",
        "the draft has the backbone of DeepSeek-V4 (`dflash.hyper_connection.count`)",
        "backbone",
        lambda draft: draft.with_key("dflash.hyper_connection.count", U32, 4),
        "dspark",
    ),
    broken(
        "draft-with-unknown-key",
        "a key of an unsupported feature (`dflash.block_causal`)",
        "unknown_keys",
        lambda draft: draft.with_key("dflash.block_causal", BOOL, True),
    ),
    broken(
        "draft-with-unknown-tensor",
        "a tensor of an unsupported feature (`blk.0.attn_gate.weight`)",
        "unknown_tensors",
        lambda draft: draft.with_tensor("blk.0.attn_gate.weight", (HIDDEN, HIDDEN)),
    ),
    broken(
        "dspark-with-unknown-head",
        "a tensor that only looks like a Markov head's (`markov_w3.weight`)",
        "unknown_tensors",
        lambda draft: draft.with_tensor("markov_w3.weight", (4, 4)),
        "dspark",
    ),
)

TENSOR_CASES = (
    broken(
        "draft-without-fusion",
        "`fc.weight` is missing",
        "tensor",
        lambda draft: draft.without_tensor("fc.weight"),
    ),
    broken(
        "dspark-without-markov-head",
        "keys of a DSpark draft, and no `markov_w1.weight`",
        "tensor",
        lambda draft: draft.without_tensor("markov_w1.weight"),
        "dspark",
    ),
    broken(
        "dflash2-without-selector",
        "keys of a DFlash2 draft, and no selector tensor",
        "tensor",
        lambda draft: draft.without_tensor(
            "selector_predecessor.weight", "selector_successor.weight", "selector_hidden.weight"
        ),
        "dflash2",
    ),
    broken(
        "dflash2-without-convolution-of-a-block",
        "`blk.1.ffn_conv_proj.weight` is missing",
        "tensor",
        lambda draft: draft.without_tensor("blk.1.ffn_conv_proj.weight"),
        "dflash2",
    ),
    broken(
        "draft-tensor-of-another-shape",
        "`blk.0.attn_q.weight` is one row short",
        "shape",
        lambda draft: draft.with_tensor("blk.0.attn_q.weight", (HIDDEN, HIDDEN - 1)),
    ),
    broken(
        "draft-norm-in-half-precision",
        "`output_norm.weight` is stored as F16",
        "type",
        lambda draft: draft.with_tensor("output_norm.weight", (HIDDEN,), "F16"),
    ),
    broken(
        "draft-matrix-of-integers",
        "`fc.weight` is stored as I32",
        "type",
        lambda draft: draft.with_tensor("fc.weight", (2 * HIDDEN, HIDDEN), "I32"),
    ),
    broken(
        "dflash2-convolution-in-half-precision",
        "`blk.0.attn_conv_base` is stored as F16",
        "type",
        lambda draft: draft.with_tensor("blk.0.attn_conv_base", (HIDDEN, 2, 2), "F16"),
        "dflash2",
    ),
    broken(
        "draft-without-values-and-norms",
        "no block has `attn_v.weight`, and the sandwich norms of shared values are missing",
        "values",
        lambda draft: draft.without_tensor("blk.0.attn_v.weight", "blk.1.attn_v.weight"),
    ),
    broken(
        "draft-with-values-in-one-block",
        "only one of the blocks has `attn_v.weight`",
        "values",
        lambda draft: shared_values(draft).with_tensor("blk.1.attn_v.weight", (HIDDEN, 16)),
    ),
    broken(
        "draft-with-few-output-rows",
        "`output.weight` has fewer rows than the vocabulary, and there is no `d2t`",
        "head_rows",
        lambda draft: draft.with_tensor("output.weight", (HIDDEN, 3)),
    ),
    broken(
        "draft-mapping-of-another-length",
        "`d2t` has other than one value for each row of `output.weight`",
        "head_rows",
        lambda draft: draft.with_mapping((0, 1, 2), head_rows=2),
    ),
    broken(
        "draft-mapping-without-head",
        "`d2t` without an output matrix of its own",
        "d2t_head",
        lambda draft: draft.with_mapping((0, 1, 2)).without_tensor("output.weight"),
    ),
    broken(
        "draft-mapping-too-long",
        "`d2t` has more values than there are tokens",
        "d2t_length",
        lambda draft: draft.with_mapping((0, 1, 2, 3, 0)),
    ),
    broken(
        "draft-mapping-outside",
        "a value of `d2t` is outside the vocabulary",
        "d2t_range",
        lambda draft: draft.with_mapping((0, 1, 4)),
    ),
    broken(
        "draft-mapping-repeated",
        "two rows of `d2t` stand for one token",
        "d2t_repeated",
        lambda draft: draft.with_mapping((0, 3, 3)),
    ),
    broken(
        "draft-mapping-of-offsets",
        "`d2t` holds offsets instead of ids",
        "d2t_repeated",
        lambda draft: draft.with_mapping((0, 0, 1)),
    ),
)


OWN_CASES = (
    ArtifactCase(
        name="draft-cut-after-scan",
        fault="the file shrinks while it is checked",
        attempt=cut_after_scan,
        code=CONTRACT,
        check_id="block.d2t_read",
    ),
    broken(
        "dspark-without-declared-confidence-head",
        "`dflash.has_confidence_head` is true, and `conf_proj.weight` is missing",
        "confidence_head",
        lambda draft: draft.without_tensor("conf_proj.weight", "conf_proj.bias"),
        "dspark",
    ),
    broken(
        "dspark-with-undeclared-confidence-head",
        "`dflash.has_confidence_head` is false, and `conf_proj.weight` exists",
        "confidence_head",
        lambda draft: draft.with_key("dflash.has_confidence_head", BOOL, False),
        "dspark",
    ),
    own_number("conv_group_size", "`dflash.conv_group_size` does not divide the hidden width", "conv_groups", 5),
    own_number("conv_kernel_size", "the convolutions have more taps than any in use", "conv_kernel_size", 65),
    own_number("selector_top_k", "a lattice row does not fit into a hidden row", "lattice_width", 6),
    own_number("selector_top_k", "more candidates than tokens", "lattice_candidates", 5),
)
