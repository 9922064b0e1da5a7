"""Tensors of a block draft: the table of the family's own, and the checks of any table of rules.

Source: the loader and graphs of llama.cpp at the pinned commit (``src/models/dflash.cpp``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from power_core.artifacts.block_layout import EMBEDDINGS, FUSION, HEAD, MAPPING
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.tensor_checks import MATRIX_TYPES, VECTOR_TYPES
from power_core.artifacts.tensor_table import MAX_DIMS, TensorInfo
from power_core.artifacts.validation import CheckList

MAPPING_TYPES = ("I64",)
SHARED_VALUE_NORMS = ("post_attention_norm.weight", "post_ffw_norm.weight")
VALUES = "attn_v.weight"

Shape = tuple[int, ...]


@attrs.frozen
class TensorRule:
    """What the graph takes for granted about one tensor; ``shape`` in ggml order, contiguous dimension first."""

    name: str
    shape: Shape
    types: tuple[str, ...] = MATRIX_TYPES
    required: bool = True


@attrs.frozen(kw_only=True)
class BlockSizes:
    """Sizes that the shapes of a block draft follow from, in elements."""

    hidden: int
    blocks: int
    feed_forward: int
    heads: int
    key_heads: int
    head_width: int
    target_layers: int
    vocabulary: int
    draft_vocabulary: int
    block_size: int

    @property
    def query(self) -> int:
        """Width of a query row."""
        return self.heads * self.head_width

    @property
    def key(self) -> int:
        """Width of a key row, and of a value row."""
        return self.key_heads * self.head_width


def vector(name: str, width: int, *, required: bool = True) -> TensorRule:
    """Return the rule of a vector that is added or multiplied element by element, so it has to be F32."""
    return TensorRule(name, (width,), VECTOR_TYPES, required)


def family_rules(header: GgufHeader, sizes: BlockSizes) -> Iterator[TensorRule]:
    """Yield the rules of the tensors that all kinds have in common."""
    hidden = sizes.hidden
    yield TensorRule(FUSION, (sizes.target_layers * hidden, hidden))
    yield vector("fc.scale", 1, required=False)
    yield vector("enc.output_norm.weight", hidden)
    yield vector("output_norm.weight", hidden)
    yield TensorRule(EMBEDDINGS, (hidden, sizes.vocabulary), required=False)
    yield TensorRule(HEAD, (hidden, sizes.draft_vocabulary), required=False)
    yield TensorRule(MAPPING, (sizes.draft_vocabulary,), MAPPING_TYPES, required=False)
    yield vector("rope_freqs.weight", sizes.head_width // 2, required=False)
    if (head := header.tensors.get(HEAD)) is not None and head.type_name == "NVFP4":
        yield vector("output.scale", 1, required=False)
    own_values = any(f"blk.{block}.{VALUES}" in header.tensors for block in range(sizes.blocks))
    for block in range(sizes.blocks):
        for rule in (*_attention(sizes, own_values=own_values), *_feed_forward(sizes)):
            yield attrs.evolve(rule, name=f"blk.{block}.{rule.name}")


def check_values(header: GgufHeader, blocks: int, checks: CheckList) -> None:
    """Every block has a value matrix; or none has and all have both sandwich norms: values are the keys then."""
    names = header.tensors
    without = [block for block in range(blocks) if f"blk.{block}.{VALUES}" not in names]
    bare = [block for block in without if not all(f"blk.{block}.{norm}" in names for norm in SHARED_VALUE_NORMS)]
    checks.add(
        "values",
        not without or (len(without) == blocks and not bare),
        f"blocks without {VALUES}: {without[:8]}; of them without {' and '.join(SHARED_VALUE_NORMS)}: {bare[:8]}",
        expected="a value matrix in every block, or in none and both norms in all",
        actual=(without[:8], bare[:8]),
    )


def check_tensors(header: GgufHeader, rules: Iterable[TensorRule], checks: CheckList) -> None:
    """Check every tensor against its rule, and that no other tensor exists; absent ones fail when required."""
    known = set()
    for rule in rules:
        known.add(rule.name)
        tensor = header.tensors.get(rule.name)
        if tensor is not None:
            _check_tensor(tensor, rule, checks)
        elif rule.required:
            checks.add("tensor", False, f"tensor '{rule.name}' is missing", expected=(rule.name, rule.shape))
    unknown = [name for name in header.tensors if name not in known]
    checks.add(
        "unknown_tensors",
        not unknown,
        f"{len(header.tensors)} tensors; of no known use: {', '.join(unknown[:8]) or 'none'}"
        f"{' and more' if len(unknown) > 8 else ''}",
        expected="no tensor of an unsupported feature; none is ignored",
        actual=unknown[:8],
    )


def _check_tensor(tensor: TensorInfo, rule: TensorRule, checks: CheckList) -> None:
    checks.add(
        "shape",
        _padded(tensor.shape) == _padded(rule.shape),
        f"tensor '{rule.name}' has shape {tensor.shape}, the keys and the other tensors ask for {rule.shape}",
        expected=rule.shape,
        actual=tensor.shape,
    )
    checks.add(
        "type",
        tensor.type_name in rule.types,
        f"tensor '{rule.name}' is stored as {tensor.type_name}",
        expected=rule.types,
        actual=tensor.type_name,
    )


def _padded(shape: Shape) -> Shape:
    """A trailing 1 says nothing: a matrix of one row may be stored with one dimension or two."""
    return shape + (1,) * (MAX_DIMS - len(shape))


def _attention(sizes: BlockSizes, *, own_values: bool) -> Iterator[TensorRule]:
    yield vector("attn_norm.weight", sizes.hidden)
    yield TensorRule("attn_q.weight", (sizes.hidden, sizes.query))
    yield TensorRule("attn_k.weight", (sizes.hidden, sizes.key))
    if own_values:
        yield TensorRule(VALUES, (sizes.hidden, sizes.key), required=False)
        yield vector("attn_v.scale", 1, required=False)
    yield TensorRule("attn_output.weight", (sizes.query, sizes.hidden))
    yield vector("attn_q_norm.weight", sizes.head_width)
    yield vector("attn_k_norm.weight", sizes.head_width)
    yield vector("attn_sinks.weight", sizes.heads, required=False)
    yield vector("post_attention_norm.weight", sizes.hidden, required=False)
    for name in ("attn_q", "attn_k", "attn_output"):
        yield vector(f"{name}.scale", 1, required=False)


def _feed_forward(sizes: BlockSizes) -> Iterator[TensorRule]:
    yield vector("ffn_norm.weight", sizes.hidden)
    yield TensorRule("ffn_gate.weight", (sizes.hidden, sizes.feed_forward))
    yield TensorRule("ffn_up.weight", (sizes.hidden, sizes.feed_forward))
    yield TensorRule("ffn_down.weight", (sizes.feed_forward, sizes.hidden))
    yield vector("post_ffw_norm.weight", sizes.hidden, required=False)
    yield vector("layer_output_scale.weight", 1, required=False)
    for name in ("ffn_gate", "ffn_up", "ffn_down"):
        yield vector(f"{name}.scale", 1, required=False)
