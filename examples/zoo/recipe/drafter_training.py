"""Trains the prediction head and the block drafters on the target's continuations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import torch
from torch import Tensor

from recipe.continuations import Continuations
from recipe.drafters import BlockDrafter
from recipe.mtp import MtpHead, mtp_losses
from recipe.target import Target
from recipe.training import Loss, Plan, Progress, Validate, train

USUAL_DRAFTS = 4
BLOCKS = 24

Losses = Callable[[Continuations, np.random.Generator, int], dict[str, Tensor]]


@attrs.frozen(kw_only=True, eq=False)
class DraftingData:
    """Texts to train and to validate on, texts of one step, and the seed of all draws."""

    training: Continuations
    validation: Continuations
    batch: int
    seed: int


def train_head(head: MtpHead, target: Target, plan: Plan, path: Path, data: DraftingData) -> Progress:
    """Train the prediction head and leave it at ``path``."""

    def losses(texts: Continuations, generator: np.random.Generator, step: int) -> dict[str, Tensor]:
        tokens, _, hidden = texts.pick(data.batch, generator)
        return mtp_losses(head, target, tokens, hidden, texts.written_from)

    return train(head, plan, path, *_loops(losses, data))


def train_drafter(drafter: BlockDrafter, plan: Plan, path: Path, data: DraftingData) -> Progress:
    """Train a block drafter and leave it at ``path``; three steps of four draft blocks of the usual width."""
    most = drafter.shape.block_rows - drafter.shape.first_draft_row

    def losses(texts: Continuations, generator: np.random.Generator, step: int) -> dict[str, Tensor]:
        drafts = most if step % 4 == 3 else USUAL_DRAFTS
        tokens, layers, hidden = texts.pick(data.batch, generator)
        last = tokens.shape[1] - most - 1
        anchors = generator.choice(np.arange(texts.written_from, last), min(BLOCKS, last - texts.written_from), False)
        return drafter.losses(layers, tokens, hidden, torch.from_numpy(np.sort(anchors)), drafts)

    return train(drafter, plan, path, *_loops(losses, data))


def _loops(losses: Losses, data: DraftingData) -> tuple[Loss, Validate]:
    def loss(step: int) -> dict[str, Tensor]:
        return losses(data.training, np.random.default_rng([data.seed, step]), step)

    @torch.no_grad()
    def validate() -> dict[str, float]:
        found = [losses(data.validation, np.random.default_rng([data.seed, 10**9, part]), 0) for part in range(4)]
        return {f"validation_{name}": float(np.mean([float(part[name]) for part in found])) for name in found[0]}

    return loss, validate
