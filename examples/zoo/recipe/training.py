"""One training loop for all models: a budget of CPU time, a schedule over it, checkpoints to resume from.

CPU time of all threads, so that a busy machine makes training longer but not worse.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import torch
from torch import Tensor, nn

from recipe.optimiser import Optimisers

WARM_UP_STEPS = 40


@attrs.frozen(kw_only=True)
class Plan:
    """How one model is trained.

    Attributes:
        cpu_minutes: Budget; training ends when it is spent, however many steps that took.
        decay_share: Share of the budget, at its end, over which the rate falls to zero.
        matrix_rate: Learning rate of inner matrices (Muon).
        other_rate: Learning rate of everything else (Adam).
        checkpoint_seconds: CPU time between checkpoints.
        most_steps: Ends training earlier when it is reached.
    """

    cpu_minutes: float
    decay_share: float
    matrix_rate: float
    other_rate: float
    checkpoint_seconds: float = 60.0
    most_steps: int = 1_000_000


@attrs.define(kw_only=True)
class Progress:
    """What a checkpoint keeps beside weights: CPU time spent, steps done, and the curve, a point per checkpoint."""

    cpu_seconds: float = 0.0
    steps: int = 0
    curve: list[dict[str, float]] = attrs.Factory(list)


Loss = Callable[[int], dict[str, Tensor]]
Validate = Callable[[], dict[str, float]]


def train(model: nn.Module, plan: Plan, path: Path, loss: Loss, validate: Validate) -> Progress:
    """Train ``model`` until its budget is spent, resuming from ``path`` when that exists.

    Args:
        model: Its parameters that want gradients are trained.
        plan: Budget and rates.
        path: Checkpoint; its curve is also written beside it as ``.curve.json``.
        loss: Losses of one step; ``loss`` is minimised, the others are recorded. Gets the number of the step, from
            which it must draw its data, so that a resumed run sees new data.
        validate: Values recorded with every checkpoint.

    Returns:
        CPU time, steps and the curve.
    """
    optimisers = Optimisers(model, matrix_rate=plan.matrix_rate, other_rate=plan.other_rate)
    progress = _resume(model, optimisers, path)
    recorded: dict[str, list[float]] = {}
    saved = progress.cpu_seconds
    while progress.cpu_seconds < 60 * plan.cpu_minutes and progress.steps < plan.most_steps:
        began = time.process_time()
        losses = loss(progress.steps)
        losses["loss"].backward()
        optimisers.step(_factor(plan, progress))
        for name, value in losses.items():
            recorded.setdefault(name, []).append(float(value.detach()))
        progress.steps += 1
        progress.cpu_seconds += time.process_time() - began
        if progress.cpu_seconds - saved > plan.checkpoint_seconds:
            saved = progress.cpu_seconds
            _record(progress, recorded, validate())
            _save(model, optimisers, progress, path)
    _record(progress, recorded, validate())
    _save(model, optimisers, progress, path)
    return progress


def _factor(plan: Plan, progress: Progress) -> float:
    left = min(1 - progress.cpu_seconds / (60 * plan.cpu_minutes), 1 - progress.steps / plan.most_steps)
    return min(1.0, (progress.steps + 1) / WARM_UP_STEPS, left / plan.decay_share)


def _record(progress: Progress, recorded: dict[str, list[float]], validated: dict[str, float]) -> None:
    if not recorded:
        return
    point = {name: sum(values) / len(values) for name, values in recorded.items()}
    recorded.clear()
    progress.curve.append({"cpu_seconds": progress.cpu_seconds, "steps": progress.steps, **point, **validated})
    print(json.dumps({name: round(value, 4) for name, value in progress.curve[-1].items()}), flush=True)


def _save(model: nn.Module, optimisers: Optimisers, progress: Progress, path: Path) -> None:
    partial = path.with_suffix(".partial")
    state = {"model": model.state_dict(), "optimisers": optimisers.state_dict(), "progress": attrs.asdict(progress)}
    torch.save(state, partial)
    partial.replace(path)
    path.with_suffix(".curve.json").write_text(json.dumps(progress.curve, indent=1))


def _resume(model: nn.Module, optimisers: Optimisers, path: Path) -> Progress:
    if not path.exists():
        return Progress()
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimisers.load_state_dict(state["optimisers"])
    return Progress(**state["progress"])
