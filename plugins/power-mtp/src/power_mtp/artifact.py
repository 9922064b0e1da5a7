"""The contract of a target that carries MTP heads: keys, tensors, shapes, types.

::

    blk.0 .. blk.T-1          the trunk
    blk.T .. blk.block_count-1   one MTP block a head: an attention block, and nextn.* around it

Sources: llama_cpp.md, "GGUF contracts"; the loaders and graphs of llama.cpp at the pinned commit, whose graphs end the
process on a head count or a missing tensor that they do not expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from power_core.artifacts import CheckList, GgufHeader, TensorInfo, ValidationReport, ValueType, merge_shards
from power_core.errors import ArtifactContractError, ArtifactError

KIND = "mtp"
UNUSABLE_MATRIX_TYPES = ("I8", "I16", "I32", "I64", "F64")
MOST_BLOCKS = 512

Shape = tuple[int, ...]


@attrs.frozen(kw_only=True)
class _Layout:
    """What the graph of an architecture's MTP block takes for granted; the loader refuses all else that is wrong.

    Attributes:
        several: It runs any number of heads, else exactly one.
        attention: ``gated`` (a query matrix of double width), ``fused`` (one matrix for query, key and value), or
            ``other``: the loader checks the shapes.
        dense: The feed-forward part is dense.
        equal_widths: Keys and values are equally wide.
        own_norm: The head ends in a norm of its own, never in the target's.
    """

    several: bool = False
    attention: Literal["gated", "fused", "other"] = "other"
    dense: bool = False
    equal_widths: bool = True
    own_norm: bool = False


LAYOUTS = {
    "bailingmoe3": _Layout(equal_widths=False),
    "cohere2moe": _Layout(),
    "glm4moe": _Layout(),
    "hy_v3": _Layout(several=True),
    "mimo2": _Layout(several=True, attention="fused", dense=True, equal_widths=False),
    "nemotron_h_moe": _Layout(own_norm=True),
    "qwen35": _Layout(attention="gated", dense=True),
    "qwen35moe": _Layout(attention="gated"),
    "qwen3next": _Layout(attention="gated"),
    "step35": _Layout(several=True, equal_widths=False),
}
"""Architectures whose MTP graph's conditions are all checked here; others are refused by name."""


class MtpValidator:
    """Validates the MTP heads of a target (``power_core.artifacts.ArtifactValidator``)."""

    kind = KIND
    describe = "multi-token-prediction heads inside a target's own file"

    def matches(self, header: GgufHeader) -> bool:
        """True when the file declares MTP blocks or holds a tensor of one."""
        declared = any(key.endswith(".nextn_predict_layers") and value != 0 for key, value in header.metadata.items())
        return declared or _nextn_tensor(header) is not None

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check the heads; a split model's other shards are scanned too. Never raises for what a file holds."""
        checks = CheckList(KIND)
        try:
            header = merge_shards(header)
        except ArtifactError as error:
            checks.add_error("shards", error, header.path)
        else:
            _check_file(header, checks)
        return checks.report(KIND, header.path)


def refusal(header: GgufHeader) -> str | None:
    """Say in one sentence why MTP cannot run on a target, None when it can."""
    failures = MtpValidator().validate(header).failures
    return failures[0].message if failures else None


@attrs.frozen(kw_only=True)
class _Heads:
    """What the header declares. MTP blocks are ``trunk_blocks`` .. ``blocks`` - 1."""

    architecture: str
    heads: int
    blocks: int

    @property
    def trunk_blocks(self) -> int:
        return self.blocks - self.heads

    @property
    def layout(self) -> _Layout:
        return LAYOUTS[self.architecture]


@attrs.frozen(kw_only=True)
class _Sizes:
    """Widths of one MTP block, in elements."""

    hidden: int
    vocabulary: int
    query: int
    key: int
    value: int
    attended: int
    key_head: int
    feed_forward: int


def _check_file(header: GgufHeader, checks: CheckList) -> None:
    heads = _check_declaration(header, checks)
    if heads is None or not _check_role(header, heads, checks) or not _check_graph(header, heads, checks):
        return
    for block in range(heads.trunk_blocks, heads.blocks):
        _check_block(header, heads, block, checks)
    _check_output(header, heads, checks)


def _check_declaration(header: GgufHeader, checks: CheckList) -> _Heads | None:
    try:
        architecture, heads = header.architecture, header.nextn_layers
        block_count = header.get(header.arch_key("block_count"))
    except ArtifactContractError as error:
        checks.add_error("nextn_predict_layers", error, header.path)
        return None
    message = f"this file has no MTP head (architecture {architecture}, {block_count} blocks)"
    key, stray = header.arch_key("nextn_predict_layers"), _nextn_tensor(header)
    if stray is not None:
        message = f"{message}: it holds '{stray}', but '{key}' does not say so"
    if not checks.add(
        "nextn_predict_layers",
        heads >= 1 and key in header.metadata,
        f"'{key}' is {heads}" if heads and key in header.metadata else message,
        expected=f"'{key}' of at least 1",
        actual=header.get(key),
    ):
        return None
    key = header.arch_key("block_count")
    usable = header.types.get(key) == (ValueType.UINT32, None)
    blocks = int(block_count) if usable and isinstance(block_count, int) else 0
    if not checks.add(
        "block_count",
        1 <= blocks <= MOST_BLOCKS,
        f"'{key}' is {block_count!r}",
        expected=f"a UINT32 from 1 to {MOST_BLOCKS}",
        actual=block_count,
    ):
        return None
    return _Heads(architecture=architecture, heads=heads, blocks=blocks)


def _check_role(header: GgufHeader, heads: _Heads, checks: CheckList) -> bool:
    trunk = range(max(heads.trunk_blocks, 0))
    whole = any(f"blk.{block}.attn_norm.weight" in header.tensors for block in trunk)
    found = f"{len(trunk)} trunk blocks and {heads.heads} MTP blocks"
    if not whole:
        found = (
            f"this file is an MTP companion: it declares {heads.blocks} blocks, {heads.heads} of them MTP, and holds "
            "no trunk block; it cannot run alone or as a draft, give the target that contains its own head"
        )
    return checks.add("role", whole, found, expected="a target with trunk and MTP blocks", actual=heads.blocks)


def _check_graph(header: GgufHeader, heads: _Heads, checks: CheckList) -> bool:
    name = heads.architecture
    known = checks.add(
        "architecture",
        name in LAYOUTS,
        f"MTP heads of architecture '{name}' are {'' if name in LAYOUTS else 'not '}supported",
        expected=sorted(LAYOUTS),
        actual=name,
    )
    if not known:
        return False
    widths = [header.get(header.arch_key(f"attention.{part}_length")) for part in ("key", "value")]
    if heads.layout.equal_widths and (None not in widths or heads.layout.attention == "other"):
        found = f"keys are {widths[0]} wide, values {widths[1]}"
        checks.add("head_widths", widths[0] == widths[1], found, expected="equal widths", actual=widths)
    several = heads.layout.several
    runs = "several MTP heads" if several else "one MTP head"
    return checks.add(
        "heads",
        several or heads.heads == 1,
        f"the pinned llama.cpp runs {runs} of architecture '{name}', this file has {heads.heads}",
        expected="at least 1" if several else 1,
        actual=heads.heads,
    )


def _check_block(header: GgufHeader, heads: _Heads, block: int, checks: CheckList) -> None:
    prefix = f"blk.{block}."
    if not any(name.startswith(prefix) for name in header.tensors):
        checks.add("block", False, f"declared MTP block {block} has no tensors", expected=f"{prefix}*", actual=0)
        return
    sizes = _read_sizes(header, heads, block, checks)
    if sizes is None:
        return
    for name, shape in _required(heads.layout, sizes, fused=f"{prefix}attn_qkv.weight" in header.tensors):
        _check_tensor(header, prefix + name, shape, checks)
    for name, shape in _optional(sizes):
        if prefix + name in header.tensors:
            _check_tensor(header, prefix + name, shape, checks)


def _required(layout: _Layout, sizes: _Sizes, *, fused: bool) -> Iterator[tuple[str, Shape]]:
    """Yield names and shapes in ggml order."""
    yield "nextn.eh_proj.weight", (2 * sizes.hidden, sizes.hidden)
    yield "nextn.enorm.weight", (sizes.hidden,)
    yield "nextn.hnorm.weight", (sizes.hidden,)
    yield "attn_norm.weight", (sizes.hidden,)
    if layout.own_norm:
        yield "nextn.shared_head_norm.weight", (sizes.hidden,)
    if layout.attention != "other":
        yield from _required_attention(layout, sizes, fused=fused)
    if layout.dense:
        yield "ffn_gate.weight", (sizes.hidden, sizes.feed_forward)
        yield "ffn_up.weight", (sizes.hidden, sizes.feed_forward)
        yield "ffn_down.weight", (sizes.feed_forward, sizes.hidden)


def _required_attention(layout: _Layout, sizes: _Sizes, *, fused: bool) -> Iterator[tuple[str, Shape]]:
    yield "attn_output.weight", (sizes.attended, sizes.hidden)
    if layout.attention == "gated":
        yield "post_attention_norm.weight", (sizes.hidden,)
        yield "attn_q_norm.weight", (sizes.key_head,)
        yield "attn_k_norm.weight", (sizes.key_head,)
    else:
        yield "ffn_norm.weight", (sizes.hidden,)
    if fused or layout.attention == "fused":
        yield "attn_qkv.weight", (sizes.hidden, sizes.query + sizes.key + sizes.value)
    else:
        yield "attn_q.weight", (sizes.hidden, sizes.query)
        yield "attn_k.weight", (sizes.hidden, sizes.key)
        yield "attn_v.weight", (sizes.hidden, sizes.value)


def _optional(sizes: _Sizes) -> Iterator[tuple[str, Shape]]:
    yield "nextn.embed_tokens.weight", (sizes.hidden, sizes.vocabulary)
    yield "nextn.shared_head_head.weight", (sizes.hidden, sizes.vocabulary)
    yield "nextn.shared_head_norm.weight", (sizes.hidden,)


def _check_tensor(header: GgufHeader, name: str, shape: Shape, checks: CheckList) -> None:
    tensor = header.tensors.get(name)
    if tensor is None:
        checks.add("tensor", False, f"tensor '{name}' is missing", expected=(name, shape), actual=None)
        return
    right = checks.add(
        "shape",
        tensor.shape == shape,
        f"tensor '{name}' has shape {tensor.shape}" + ("" if tensor.shape == shape else f", expected {shape}"),
        expected=shape,
        actual=tensor.shape,
    )
    if right:
        _check_type(tensor, checks)


def _check_type(tensor: TensorInfo, checks: CheckList) -> None:
    vector = len(tensor.shape) == 1
    usable = tensor.type_name == "F32" if vector else tensor.type_name not in UNUSABLE_MATRIX_TYPES
    checks.add(
        "type",
        usable,
        f"tensor '{tensor.name}' is stored as {tensor.type_name}",
        expected="F32" if vector else f"a floating-point or quantised type, none of {', '.join(UNUSABLE_MATRIX_TYPES)}",
        actual=tensor.type_name,
    )


def _check_output(header: GgufHeader, heads: _Heads, checks: CheckList) -> None:
    """Every head ends in a norm and a matrix: its own, or the target's."""
    for block in range(heads.trunk_blocks, heads.blocks):
        for own, shared in (
            ("shared_head_norm", ("output_norm.weight",)),
            ("shared_head_head", ("output.weight", "token_embd.weight")),
        ):
            names = (f"blk.{block}.nextn.{own}.weight", *shared)
            present = [name for name in names if name in header.tensors]
            message = f"MTP block {block} ends in '{present[0]}'" if present else f"none of {names} exists"
            checks.add("output", bool(present), message, expected=names, actual=present)


def _read_sizes(header: GgufHeader, heads: _Heads, block: int, checks: CheckList) -> _Sizes | None:
    hidden = _number(header, "embedding_length", block, checks)
    embedding = header.tensors.get("token_embd.weight")
    vocabulary = embedding.shape[1] if embedding is not None and len(embedding.shape) == 2 else 0
    checks.add("token_embd", vocabulary > 0, "'token_embd.weight' must be a matrix", expected=2, actual=embedding)
    layout = heads.layout
    names = ("attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length")
    values = [0 if layout.attention == "other" else _number(header, name, block, checks) for name in names]
    feed_forward = _number(header, "feed_forward_length", block, checks) if layout.dense else 0
    if hidden is None or feed_forward is None or vocabulary == 0 or None in values:
        return None
    count, groups, key_head, value_head = (value or 0 for value in values)
    return _Sizes(
        hidden=hidden,
        vocabulary=vocabulary,
        query=key_head * count * (2 if layout.attention == "gated" else 1),
        key=key_head * groups,
        value=value_head * groups,
        attended=value_head * count,
        key_head=key_head,
        feed_forward=feed_forward,
    )


def _number(header: GgufHeader, suffix: str, block: int, checks: CheckList) -> int | None:
    """Read a key that holds one number, or one a block; a missing layout key is an error, never a default."""
    key = header.arch_key(suffix)
    value = header.get(key)
    if isinstance(value, tuple):
        value = value[block] if block < len(value) else None
    usable = isinstance(value, int) and not isinstance(value, bool) and value > 0
    found = f"'{key}' is {value!r}" if key in header.metadata else f"the key '{key}' is missing"
    checks.add("key", usable, found, expected=f"'{key}', a positive number for block {block}", actual=value)
    return value if usable and isinstance(value, int) else None


def _nextn_tensor(header: GgufHeader) -> str | None:
    return next((name for name in header.tensors if ".nextn." in name), None)
