"""The hybrid target (GGUF architecture ``qwen35``): delta nets with full attention in every third layer."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch
from torch import Tensor, nn

from recipe.delta_net import GatedDeltaNet
from recipe.layers import FeedForward, GatedAttention, RmsNorm


@attrs.frozen(kw_only=True)
class TargetShape:
    """Sizes in elements; ``interval``: every so-manieth layer is full attention."""

    vocabulary_tokens: int
    hidden: int = 256
    inner: int = 768
    layers: int = 6
    interval: int = 3
    heads: int = 4
    key_heads: int = 2
    width: int = 64
    rotated: int = 16
    rope_base: float = 10_000.0

    def is_attention(self, layer: int) -> bool:
        return (layer + 1) % self.interval == 0

    def attention(self) -> GatedAttention:
        """Return a full-attention layer of these sizes."""
        return GatedAttention(
            self.hidden,
            heads=self.heads,
            key_heads=self.key_heads,
            width=self.width,
            rotated=self.rotated,
            base=self.rope_base,
        )


class Block(nn.Module):
    """Mixer and feed-forward, each behind a norm and added to its input."""

    def __init__(self, shape: TargetShape, *, attention: bool) -> None:
        super().__init__()
        self.mixer_norm = RmsNorm(shape.hidden)
        self.mixer = shape.attention() if attention else _delta_net(shape)
        self.inner_norm = RmsNorm(shape.hidden)
        self.inner = FeedForward(shape.hidden, shape.inner)

    def forward(self, rows: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        mixed, state = self.mixer(self.mixer_norm(rows), past)
        rows = rows + mixed
        return rows + self.inner(self.inner_norm(rows)), state


def _delta_net(shape: TargetShape) -> GatedDeltaNet:
    return GatedDeltaNet(shape.hidden, key_heads=shape.key_heads, value_heads=shape.heads, width=shape.width)


@attrs.frozen(kw_only=True)
class TargetRows:
    """What one evaluation yields.

    Attributes:
        hidden: Normed rows before the output matrix, ``[batch, rows, hidden]``.
        layers: Inputs of the tapped layers, each as ``hidden``.
        past: State of every layer after these rows.
    """

    hidden: Tensor
    layers: list[Tensor]
    past: list[tuple[Tensor, Tensor]]


class Target(nn.Module):
    """The whole model."""

    def __init__(self, shape: TargetShape) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = nn.Embedding(shape.vocabulary_tokens, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape, attention=shape.is_attention(layer)) for layer in range(shape.layers))
        self.norm = RmsNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary_tokens, bias=False)
        self.head.is_head = True
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
        for block in self.blocks:
            nn.init.zeros_(block.mixer.output.weight)
            nn.init.zeros_(block.inner.down.weight)
        nn.init.normal_(self.embeddings.weight, std=0.5)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(
        self, tokens: Tensor, *, taps: Sequence[int] = (), past: list[tuple[Tensor, Tensor]] | None = None
    ) -> TargetRows:
        """Evaluate ``[batch, rows]`` tokens; with a past, one row per sequence."""
        rows = self.embeddings(tokens)
        inputs, states = [], []
        for index, block in enumerate(self.blocks):
            inputs.append(rows)
            rows, state = block(rows, None if past is None else past[index])
            states.append(state)
        return TargetRows(hidden=self.norm(rows), layers=[inputs[layer] for layer in taps], past=states)


@torch.no_grad()
def continue_greedily(target: Target, prompts: Tensor, more_tokens: int) -> Tensor:
    """Return ``[batch, prompt + more_tokens]``: the prompts and what the target writes after them."""
    rows = target(prompts)
    tokens = [prompts]
    for _ in range(more_tokens):
        tokens.append(target.head(rows.hidden[:, -1:]).argmax(-1))
        rows = target(tokens[-1], past=rows.past)
    return torch.cat(tokens, dim=1)
