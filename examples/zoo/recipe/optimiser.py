"""Muon for the matrices inside the blocks, Adam for everything else, one schedule for both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
LEAST_SIDE = 64


class Muon(Optimizer):
    """Momentum whose update of each matrix is made nearly orthogonal by a Newton-Schulz iteration."""

    def __init__(self, params: Iterable[Tensor], *, lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices; those of one shape together."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append(matrix)
            for shape, matrices in by_shape.items():
                updates = torch.stack([self._momentum(matrix, group["momentum"]) for matrix in matrices])
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, update in zip(matrices, orthogonal(updates), strict=True):
                    matrix.add_(update, alpha=-scale)

    def _momentum(self, matrix: Tensor, momentum: float) -> Tensor:
        state = self.state[matrix]
        if "average" not in state:
            state["average"] = torch.zeros_like(matrix)
        average: Tensor = state["average"].lerp_(matrix.grad, 1 - momentum)
        return matrix.grad.lerp(average, momentum)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return the nearest matrices with singular values near 1; ``[count, rows, columns]``."""
    turned = matrices.shape[1] > matrices.shape[2]
    near = matrices.transpose(1, 2) if turned else matrices
    near = near / (near.norm(dim=(1, 2), keepdim=True) + 1e-7)
    first, third, fifth = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = near @ near.transpose(1, 2)
        near = first * near + (third * square + fifth * square @ square) @ near
    return near.transpose(1, 2) if turned else near


class Optimisers:
    """Both optimisers under one learning-rate factor."""

    def __init__(self, model: nn.Module, *, matrix_rate: float, other_rate: float) -> None:
        matrices = list(_inner_matrices(model))
        known = {id(matrix) for matrix in matrices}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in known]
        self.parameters = [*matrices, *others]
        self._both: list[Optimizer] = [AdamW(others, lr=other_rate, betas=(0.9, 0.95), weight_decay=0.0)]
        if matrices:
            self._both.append(Muon(matrices, lr=matrix_rate))
        self._rates = [[group["lr"] for group in optimiser.param_groups] for optimiser in self._both]

    def step(self, factor: float) -> None:
        """Clip the gradients, update everything at ``factor`` times the set rates and clear the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimiser, rates in zip(self._both, self._rates, strict=True):
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, object]]:
        return [optimiser.state_dict() for optimiser in self._both]

    def load_state_dict(self, states: list[dict[str, object]]) -> None:
        for optimiser, state in zip(self._both, states, strict=True):
            optimiser.load_state_dict(state)


def _inner_matrices(model: nn.Module) -> Iterator[Tensor]:
    for module in model.modules():
        if isinstance(module, nn.Linear) and min(module.weight.shape) >= LEAST_SIDE and not hasattr(module, "is_head"):
            yield module.weight
