"""Headers of the smallest block drafts that pass every check, to be changed one fault at a time.

They belong to ``minimal_target`` and hold zeros only; ``power_core.testing.drafts`` builds drafts that compute::

    content = minimal_draft("dspark").without_key("dflash.block_size")
    path.write_bytes(content.build())
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import attrs

from power_core.artifacts.tensor_table import tensor_types
from power_core.artifacts.values import ValueType
from power_core.testing.draft_weights import DraftKind
from power_core.testing.headers import GgufBytes, Value

HIDDEN, FEED_FORWARD, HEADS, KEY_HEADS, HEAD_WIDTH, BLOCKS = 32, 64, 2, 1, 16, 2
TOKENS = ("a", "b", "ab", "<end>")
RANK, TAPS, GROUP, CANDIDATES = 4, 2, 16, 3
MAPPING = "d2t"

Shape = tuple[int, ...]


@attrs.frozen
class HeaderKey:
    """One metadata value; ``values`` is a tuple for an array of ``value_type``."""

    value_type: ValueType
    values: Value | tuple[Value, ...]


@attrs.frozen
class HeaderTensor:
    """One tensor; ``shape`` in ggml order."""

    shape: Shape
    type_name: str = "F32"


@attrs.frozen(kw_only=True)
class DraftHeader:
    """A draft in the making; every method that changes something returns a changed copy.

    Attributes:
        keys: Metadata by name.
        tensors: Tensors by name, in file order.
        mapping: Values of the tensor ``d2t``.
    """

    keys: Mapping[str, HeaderKey]
    tensors: Mapping[str, HeaderTensor]
    mapping: tuple[int, ...] = ()

    def with_key(self, name: str, value_type: ValueType, values: Value | tuple[Value, ...]) -> DraftHeader:
        """Add or replace a value; a tuple makes an array."""
        return attrs.evolve(self, keys={**self.keys, name: HeaderKey(value_type, values)})

    def without_key(self, name: str) -> DraftHeader:
        """Leave a value out."""
        return attrs.evolve(self, keys={key: value for key, value in self.keys.items() if key != name})

    def with_tensor(self, name: str, shape: Shape, type_name: str = "F32") -> DraftHeader:
        """Add or replace a tensor."""
        return attrs.evolve(self, tensors={**self.tensors, name: HeaderTensor(shape, type_name)})

    def without_tensor(self, *names: str) -> DraftHeader:
        """Leave tensors out."""
        return attrs.evolve(self, tensors={name: each for name, each in self.tensors.items() if name not in names})

    def with_mapping(self, ids: Sequence[int], *, head_rows: int | None = None) -> DraftHeader:
        """Add ``d2t`` with these values, and an output matrix of as many rows."""
        changed = self.with_tensor("output.weight", (HIDDEN, len(ids) if head_rows is None else head_rows))
        if "markov_w2.weight" in self.tensors:
            changed = changed.with_tensor("markov_w2.weight", (RANK, len(ids)))
        return attrs.evolve(changed.with_tensor(MAPPING, (len(ids),), "I64"), mapping=tuple(ids))

    def build(self) -> bytes:
        """Return the file. The mapping is its last tensor."""
        content = GgufBytes()
        for name, key in self.keys.items():
            add = content.with_array if isinstance(key.values, tuple) else content.with_value
            content = add(name, key.value_type, key.values)  # type: ignore[arg-type]
        ids = {entry.name: type_id for type_id, entry in tensor_types().items()}
        for name in sorted(self.tensors, key=lambda name: name == MAPPING):
            tensor = self.tensors[name]
            content = content.with_tensor(name, tensor.shape, ids[tensor.type_name])
        raw = content.build()
        values = struct.pack(f"<{len(self.mapping)}q", *self.mapping)
        start = len(raw) - (len(values) + (-len(values)) % 32)
        return raw[:start] + values + raw[start + len(values) :]


def minimal_draft(kind: DraftKind) -> DraftHeader:
    """Return a small draft of a kind that passes every check and belongs to ``minimal_target``."""
    keys = {
        "general.architecture": HeaderKey(ValueType.STRING, "dflash"),
        **_layout_keys(),
        **_tokenizer_keys(),
        **_kind_keys(kind),
    }
    shapes = {**_shared_shapes(), **_kind_shapes(kind)}
    return DraftHeader(keys=keys, tensors={name: HeaderTensor(shape) for name, shape in shapes.items()})


def _layout_keys() -> dict[str, HeaderKey]:
    numbers = {
        "context_length": 64,
        "embedding_length": HIDDEN,
        "block_count": BLOCKS,
        "feed_forward_length": FEED_FORWARD,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KEY_HEADS,
        "attention.key_length": HEAD_WIDTH,
        "attention.value_length": HEAD_WIDTH,
        "block_size": 4,
    }
    return {
        **{f"dflash.{name}": HeaderKey(ValueType.UINT32, number) for name, number in numbers.items()},
        "dflash.attention.layer_norm_rms_epsilon": HeaderKey(ValueType.FLOAT32, 1e-6),
        "dflash.rope.freq_base": HeaderKey(ValueType.FLOAT32, 10_000.0),
        "dflash.target_layers": HeaderKey(ValueType.UINT32, (0, 2)),
    }


def _tokenizer_keys() -> dict[str, HeaderKey]:
    """The tokenizer of ``minimal_target``, and a mask token."""
    values = {
        "model": HeaderKey(ValueType.STRING, "gpt2"),
        "pre": HeaderKey(ValueType.STRING, "qwen2"),
        "tokens": HeaderKey(ValueType.STRING, TOKENS),
        "token_type": HeaderKey(ValueType.INT32, (1, 1, 1, 3)),
        "merges": HeaderKey(ValueType.STRING, ("a b",)),
        "eos_token_id": HeaderKey(ValueType.UINT32, 3),
        "add_bos_token": HeaderKey(ValueType.BOOL, False),
        "mask_token_id": HeaderKey(ValueType.UINT32, 3),
    }
    return {f"tokenizer.ggml.{name}": value for name, value in values.items()}


def _kind_keys(kind: DraftKind) -> dict[str, HeaderKey]:
    if kind == "dspark":
        flags = ("sample_from_anchor", "has_confidence_head")
        return {f"dflash.{name}": HeaderKey(ValueType.BOOL, True) for name in flags}
    if kind == "dflash2":
        numbers = {
            "conv_kernel_size": TAPS,
            "conv_group_size": GROUP,
            "selector_rank": RANK,
            "selector_top_k": CANDIDATES,
        }
        return {f"dflash.{name}": HeaderKey(ValueType.UINT32, number) for name, number in numbers.items()}
    return {}


def _shared_shapes() -> dict[str, Shape]:
    block = {
        "attn_norm.weight": (HIDDEN,),
        "attn_q.weight": (HIDDEN, HEADS * HEAD_WIDTH),
        "attn_k.weight": (HIDDEN, KEY_HEADS * HEAD_WIDTH),
        "attn_v.weight": (HIDDEN, KEY_HEADS * HEAD_WIDTH),
        "attn_output.weight": (HEADS * HEAD_WIDTH, HIDDEN),
        "attn_q_norm.weight": (HEAD_WIDTH,),
        "attn_k_norm.weight": (HEAD_WIDTH,),
        "ffn_norm.weight": (HIDDEN,),
        "ffn_gate.weight": (HIDDEN, FEED_FORWARD),
        "ffn_up.weight": (HIDDEN, FEED_FORWARD),
        "ffn_down.weight": (FEED_FORWARD, HIDDEN),
    }
    return {
        "fc.weight": (2 * HIDDEN, HIDDEN),
        "enc.output_norm.weight": (HIDDEN,),
        "output_norm.weight": (HIDDEN,),
        **{f"blk.{index}.{name}": shape for index in range(BLOCKS) for name, shape in block.items()},
    }


def _kind_shapes(kind: DraftKind) -> dict[str, Shape]:
    vocabulary = len(TOKENS)
    if kind == "dspark":
        return {
            "markov_w1.weight": (RANK, vocabulary),
            "markov_w2.weight": (RANK, vocabulary),
            "conf_proj.weight": (HIDDEN + RANK, 1),
            "conf_proj.bias": (1,),
        }
    if kind == "dflash2":
        convolution = {
            f"blk.{index}.{place}_conv_{part}": shape
            for index in range(BLOCKS)
            for place in ("attn", "ffn")
            for part, shape in (
                ("base", (HIDDEN, TAPS, 2)),
                ("proj.weight", (HIDDEN, 2 * TAPS * HIDDEN // GROUP)),
            )
        }
        return {
            "selector_predecessor.weight": (RANK, vocabulary),
            "selector_successor.weight": (RANK, vocabulary),
            "selector_hidden.weight": (HIDDEN, RANK),
            **convolution,
        }
    return {}
