"""Compares the exported target, run by the library, with the one that was trained: tokens, logits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from power_core.target import ModelSettings
from power_core.tokens import SequenceRows
from power_native import NativeContext, NativeModel
from recipe.library_runs import LibrarySettings
from recipe.target import Target


def differing_lines(path: Path, tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """Return the lines that the library tokenizes otherwise than ``tokenizer``."""
    with closing(NativeModel.open(ModelSettings(path=path))) as model:
        encoded = zip(lines, tokenizer.encode_batch(list(lines), add_special_tokens=False), strict=True)
        return [line for line, wanted in encoded if list(model.vocabulary.tokenize(line)) != wanted.ids]


def logit_difference(settings: LibrarySettings, path: Path, target: Target, tokens: Sequence[int]) -> dict[str, float]:
    """Compare the library's logits with the trained target's over a text; the file should be an F32 export.

    Returns:
        ``largest`` and ``mean`` difference, and the ``largest_logit``.
    """
    with settings.open_model(path) as model, closing(model.open_context(settings.context())) as context:
        found = np.stack([_next_logits(context, position, token) for position, token in enumerate(tokens)])
    with torch.no_grad():
        wanted = target.head(target(torch.tensor([tokens])).hidden)[0].numpy()
    difference = np.abs(found - wanted)
    return {
        "largest": float(difference.max()),
        "mean": float(difference.mean()),
        "largest_logit": float(np.abs(wanted).max()),
    }


def _next_logits(context: NativeContext, position: int, token: int) -> NDArray[np.float32]:
    context.evaluate((SequenceRows(start_pos=position, tokens=(token,)),), kernels="decode")
    return np.array(context.logits(0))
