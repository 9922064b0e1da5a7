"""What the drafters learn from: text that the target continued greedily, with its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recipe.target import Target, continue_greedily
from recipe.target_training import Tokens, windows


@attrs.frozen(kw_only=True, eq=False)
class Continuations:
    """Texts and the target's rows of them, in float16.

    Attributes:
        tokens: int64 ``[texts, rows]``.
        layers: Inputs of the tapped layers side by side, ``[texts, rows, layers * hidden]``.
        hidden: Normed last rows, ``[texts, rows, hidden]``.
        written_from: First position that the target wrote itself.
    """

    tokens: Tensor
    layers: Tensor
    hidden: Tensor
    written_from: int

    def pick(self, count: int, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens, layers and hidden rows of ``count`` texts drawn at random, in float32."""
        chosen = torch.from_numpy(generator.integers(0, len(self.tokens), count))
        return self.tokens[chosen], self.layers[chosen].float(), self.hidden[chosen].float()


@attrs.frozen(kw_only=True)
class ContinuationPlan:
    """How many texts, and how long in tokens; ``batch`` texts are written at once and kept in one file."""

    texts: int
    validation_texts: int
    prompt_tokens: int
    written_tokens: int
    batch: int


def write_continuations(
    target: Target, text: Tokens, folder: Path, plan: ContinuationPlan, *, texts: int, taps: Sequence[int], seed: int
) -> None:
    """Write texts batch by batch below ``folder``; batches that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-texts // plan.batch)):
        file = folder / f"{number:03}.npz"
        if not file.exists():
            count = min(plan.batch, texts - number * plan.batch)
            prompts = windows(text, rows=plan.prompt_tokens, count=count, seed=seed + number)
            _write_batch(target, prompts, plan.written_tokens, taps, file)
            print(f"{file}: {count} texts", flush=True)


def read_continuations(folder: Path, plan: ContinuationPlan) -> Continuations:
    """Read all texts of a folder."""
    parts = [np.load(file) for file in sorted(folder.glob("[0-9]*.npz")) if "partial" not in file.name]
    tokens, layers, hidden = (
        torch.from_numpy(np.concatenate([part[name] for part in parts])) for name in ("tokens", "layers", "hidden")
    )
    return Continuations(tokens=tokens.long(), layers=layers, hidden=hidden, written_from=plan.prompt_tokens)


@torch.no_grad()
def _write_batch(target: Target, prompts: Tensor, written_tokens: int, taps: Sequence[int], file: Path) -> None:
    tokens = continue_greedily(target, prompts, written_tokens)
    layers, hidden = [], []
    for part in tokens.split(32):
        rows = target(part, taps=taps)
        layers.append(_half(torch.cat(rows.layers, dim=-1)))
        hidden.append(_half(rows.hidden))
    partial = file.with_suffix(".partial.npz")
    arrays = {"layers": np.concatenate(layers), "hidden": np.concatenate(hidden)}
    np.savez(partial, tokens=tokens.numpy().astype(np.uint16), **arrays)
    partial.replace(file)


def _half(rows: Tensor) -> NDArray[np.float16]:
    return rows.numpy().astype(np.float16)
