"""A target whose wide evaluations are off by noise, as kernels that sum in another order for more rows are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from power_core.target import TargetContext
from power_core.tokens import TokenId


class NoisyRows:
    """Noise in the logits of ``decode`` evaluations of more than ``exact_rows`` rows, the same every time.

    Args:
        kind: Class of the contexts.
        exact_rows: Widest evaluation without noise.
        size: Largest noise of a logit.
    """

    def __init__(self, kind: type[TargetContext], exact_rows: int, size: float) -> None:
        self._evaluate, self._logits, self._argmax = kind.evaluate, kind.logits, kind.argmax
        self._exact_rows = exact_rows
        self._size = size
        self._wide: set[int] = set()

    def evaluate(self, context: TargetContext, sequences: Any, **keywords: Any) -> None:
        """Evaluate, and remember whether the rows are too many."""
        self._evaluate(context, sequences, **keywords)
        rows = sum(len(each.tokens) for each in sequences)
        wide = keywords["kernels"] == "decode" and rows > self._exact_rows
        (self._wide.add if wide else self._wide.discard)(id(context))

    def logits(self, context: TargetContext, row: int) -> NDArray[np.float32]:
        """Return a row with its noise."""
        logits = self._logits(context, row)
        if id(context) not in self._wide:
            return logits
        noise = np.random.default_rng(row).uniform(-self._size, self._size, logits.size)
        return logits + noise.astype(np.float32)

    def argmax(self, context: TargetContext, row: int) -> TokenId:
        """Choose with the noise."""
        noisy = id(context) in self._wide
        return int(self.logits(context, row).argmax()) if noisy else self._argmax(context, row)


@contextmanager
def noisy_rows(kind: type[TargetContext], *, exact_rows: int, size: float) -> Iterator[None]:
    """Let all contexts of a class be noisy; greedy samplers choose with the noise where they ask the context."""
    noise = NoisyRows(kind, exact_rows, size)
    with (
        patch.object(kind, "evaluate", lambda self, sequences, **keywords: noise.evaluate(self, sequences, **keywords)),
        patch.object(kind, "logits", lambda self, row: noise.logits(self, row)),
        patch.object(kind, "argmax", lambda self, row: noise.argmax(self, row)),
    ):
        yield
