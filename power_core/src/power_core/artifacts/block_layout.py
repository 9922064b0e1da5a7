"""What a block draft's header says about its graph. All kinds of the DFlash family share one architecture name.

Two keys may be absent, because converters write them only when they differ from the usual: ``dflash.attention.causal``
(absent: the rows of a block see each other) and ``dflash.rope.dimension_count`` (absent: the whole head is rotated).
No other layout key has a default, and nothing is guessed.

Source: the loader of llama.cpp at the pinned commit (``src/models/dflash.cpp``), its converters, and the driver in
``common/speculative.cpp``, which reads the keys that the loader does not.
"""

from __future__ import annotations

import attrs

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.roles import BLOCK_ARCHITECTURE, dflash_kinds
from power_core.artifacts.values import StringArray, ValueType
from power_core.blocks import BlockGeometry
from power_core.errors import ArtifactContractError
from power_core.tokens import TokenId

MASK_KEY = "tokenizer.ggml.mask_token_id"
TOKENS_KEY = "tokenizer.ggml.tokens"
EMBEDDINGS, HEAD, MAPPING, FUSION = "token_embd.weight", "output.weight", "d2t", "fc.weight"


@attrs.frozen(kw_only=True)
class BlockLayout:
    """What running a block draft takes to know of its layout.

    Attributes:
        hidden: Width of a hidden row; the target's has to be equal.
        vocabulary_tokens: Tokens of the tokenizer.
        block_size_rows: Rows of a block in training.
        target_layers: Layers of the target whose inputs are the features, in this order.
        mask_token: Token of the rows after the anchor.
        context_tokens: Positions in training.
        causal: Rows of a block see no later rows.
        predicts_at_anchor: The anchor's own row predicts the first draft.
        has_confidence: A confidence head rates every draft.
        lattice_width: Candidates per row of the selector lattice; 0 for none.
    """

    hidden: int
    vocabulary_tokens: int
    block_size_rows: int
    target_layers: tuple[int, ...]
    mask_token: TokenId
    context_tokens: int
    causal: bool
    predicts_at_anchor: bool
    has_confidence: bool
    lattice_width: int

    @property
    def geometry(self) -> BlockGeometry:
        """Rows and positions of one block."""
        return BlockGeometry(block_size_rows=self.block_size_rows, predicts_at_anchor=self.predicts_at_anchor)


def read_block_layout(header: GgufHeader) -> BlockLayout:
    """Read the layout of a draft that its kind's validator accepts.

    Raises:
        ArtifactContractError: not a block draft, two kinds in one file, or a key is missing or stored as another type.
            Values are checked by the validator, not here.
    """
    kind = _kind(header)
    tokens: StringArray = header.require_array(TOKENS_KEY, ValueType.STRING)
    return BlockLayout(
        hidden=_number(header, "embedding_length"),
        vocabulary_tokens=len(tokens),
        block_size_rows=_number(header, "block_size"),
        target_layers=header.require_array(f"{BLOCK_ARCHITECTURE}.target_layers", ValueType.UINT32, ValueType.INT32),
        mask_token=header.require(MASK_KEY, ValueType.UINT32),
        context_tokens=_number(header, "context_length"),
        causal=_has(header, "attention.causal") and _flag(header, "attention.causal"),
        predicts_at_anchor=kind == "dspark" and _flag(header, "sample_from_anchor"),
        has_confidence=kind == "dspark" and _flag(header, "has_confidence_head"),
        lattice_width=_number(header, "selector_top_k") if kind == "dflash2" else 0,
    )


def _kind(header: GgufHeader) -> str:
    kinds = dflash_kinds(header)
    if header.architecture == BLOCK_ARCHITECTURE and len(kinds) == 1:
        return kinds[0]
    found = f"architecture {header.architecture!r}, with the marks of {' and '.join(kinds)}"
    raise ArtifactContractError(
        f"{header.path}: not a block draft of one kind: {found}",
        path=str(header.path),
        check_id="block.kind",
        expected=f"architecture {BLOCK_ARCHITECTURE!r}, one kind",
        actual=found,
        hint="`power inspect FILE` says what the file is",
    )


def _has(header: GgufHeader, suffix: str) -> bool:
    return f"{BLOCK_ARCHITECTURE}.{suffix}" in header.metadata


def _number(header: GgufHeader, suffix: str) -> int:
    number: int = header.require(f"{BLOCK_ARCHITECTURE}.{suffix}", ValueType.UINT32)
    return number


def _flag(header: GgufHeader, suffix: str) -> bool:
    flag: bool = header.require(f"{BLOCK_ARCHITECTURE}.{suffix}", ValueType.BOOL)
    return flag
