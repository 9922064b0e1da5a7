"""Trains the target on windows of the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from recipe.target import Target, TargetShape
from recipe.training import Plan, Progress, train

Tokens = NDArray[np.uint16]


def windows(tokens: Tokens, *, rows: int, count: int, seed: int) -> Tensor:
    """Draw ``[count, rows]`` windows of a text."""
    starts = np.random.default_rng(seed).integers(0, len(tokens) - rows, count)
    return torch.from_numpy(np.stack([tokens[start : start + rows] for start in starts]).astype(np.int64))


def train_target(
    shape: TargetShape,
    plan: Plan,
    path: Path,
    *,
    training: Tokens,
    validation: Tokens,
    rows: int,
    batch: int,
    seed: int,
) -> Progress:
    """Train a target and leave it at ``path`` (see ``recipe.training.train``)."""
    torch.manual_seed(seed)
    target = Target(shape)
    held = windows(validation, rows=rows, count=4 * batch, seed=seed)

    def loss(step: int) -> dict[str, Tensor]:
        return {"loss": next_token_loss(target, windows(training, rows=rows, count=batch, seed=seed + 1 + step))}

    @torch.no_grad()
    def validate() -> dict[str, float]:
        parts = [float(next_token_loss(target, part)) for part in held.split(batch)]
        return {"validation": sum(parts) / len(parts)}

    return train(target, plan, path, loss, validate)


def next_token_loss(target: Target, tokens: Tensor) -> Tensor:
    """Return the mean cross-entropy of each next token, in nats."""
    logits = target.head(target(tokens[:, :-1]).hidden)
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
