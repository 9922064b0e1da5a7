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
    """Texts and the target's rows of them, in float16, on disk until they are picked.

    Attributes:
        tokens: int64 ``[texts, rows]``.
        rows: Inputs of the tapped layers side by side, then the normed last row; per file
            ``[texts, rows, layers * hidden + hidden]``.
        hidden: Width of the last row.
        written_from: First position that the target wrote itself.
    """

    tokens: Tensor
    rows: Sequence[NDArray[np.float16]]
    hidden: int
    written_from: int

    def pick(self, count: int, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens, layers and hidden rows of ``count`` texts drawn at random, in float32."""
        chosen = generator.integers(0, len(self.tokens), count)
        most = len(self.rows[0])
        rows = torch.from_numpy(np.stack([self.rows[text // most][text % most] for text in chosen])).float()
        return self.tokens[torch.from_numpy(chosen)], rows[..., : -self.hidden], rows[..., -self.hidden :]


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
        file = folder / f"{number:03}.npy"
        if not file.exists():
            count = min(plan.batch, texts - number * plan.batch)
            prompts = windows(text, rows=plan.prompt_tokens, count=count, seed=seed + number)
            _write_batch(target, prompts, plan.written_tokens, taps, file)
            print(f"{file}: {count} texts", flush=True)


def read_continuations(folder: Path, plan: ContinuationPlan, hidden: int) -> Continuations:
    """Read all texts of a folder; ``hidden`` is the width of the target's rows."""
    files = sorted(folder.glob("[0-9][0-9][0-9].npy"))
    tokens = np.concatenate([np.load(_token_file(file)) for file in files])
    return Continuations(
        tokens=torch.from_numpy(tokens).long(),
        rows=[np.load(file, mmap_mode="r") for file in files],
        hidden=hidden,
        written_from=plan.prompt_tokens,
    )


@torch.no_grad()
def _write_batch(target: Target, prompts: Tensor, written_tokens: int, taps: Sequence[int], file: Path) -> None:
    tokens = continue_greedily(target, prompts, written_tokens)
    parts = [target(part, taps=taps) for part in tokens.split(32)]
    rows = torch.cat([torch.cat([*part.layers, part.hidden], dim=-1) for part in parts])
    np.save(_token_file(file), tokens.numpy().astype(np.uint16))
    partial = file.with_suffix(".partial.npy")
    np.save(partial, rows.numpy().astype(np.float16))
    partial.replace(file)


def _token_file(file: Path) -> Path:
    return file.with_suffix(".tokens.npy")
