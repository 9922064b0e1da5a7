"""What the reference of the block drafters reads from GGUF files: sizes from the keys, weights as float64."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ModelFile:
    """A GGUF file's keys by name and its tensors by name, dequantised; dimensions are those of ggml reversed."""

    def __init__(self, path: Path) -> None:
        self._reader = gguf.GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.loaded: dict[str, NDArray[Any]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def key(self, name: str, default: Any = None) -> Any:
        field = self._reader.fields.get(name)
        return default if field is None else field.contents()

    def weight(self, name: str) -> Array:
        """A tensor as float64; tables of ids keep their integers."""
        if name not in self.loaded:
            tensor = self._tensors[name]
            if tensor.tensor_type == gguf.GGMLQuantizationType.I64:
                self.loaded[name] = tensor.data
            else:
                self.loaded[name] = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        return self.loaded[name]

    def optional(self, name: str) -> Array | None:
        return self.weight(name) if name in self else None


class DraftFile(ModelFile):
    """A block draft's file, with the tensors that it shares from its target's."""

    def __init__(self, path: Path, target: Path) -> None:
        super().__init__(path)
        self._target = _target_file(target)

    def size(self, name: str, default: Any = None) -> Any:
        """A key of the architecture."""
        return self.key(f"dflash.{name}", default)

    @cached_property
    def embeddings(self) -> Array:
        """Rows [V, E] of tokens, from whichever file holds them."""
        return (self if "token_embd.weight" in self else self._target).weight("token_embd.weight")

    @cached_property
    def head(self) -> Array:
        """Rows [V or draft vocabulary, E]: own head, else own embeddings, else the target's head (or embeddings)."""
        for file in (self, self._target):
            for name in ("output.weight", "token_embd.weight"):
                if name in file:
                    return file.weight(name)
        raise KeyError("output.weight")

    @cached_property
    def mask_token(self) -> int:
        return int(self.key("tokenizer.ggml.mask_token_id"))

    @cached_property
    def first_draft_row(self) -> int:
        """Row that predicts the first draft: the anchor's own for anchor-first DSpark, else the next."""
        return 0 if self.size("sample_from_anchor", False) else 1

    def window_tokens(self, block: int) -> int | None:
        """Positions that a block's attention reaches back over, its own included; None: all."""
        pattern = self.size("attention.sliding_window_pattern")
        return int(self.size("attention.sliding_window")) if pattern is not None and pattern[block] else None


@cache
def _target_file(path: Path) -> ModelFile:
    """Targets are shared by many drafts."""
    return ModelFile(path)
