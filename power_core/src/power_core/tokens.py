"""Values between the core, a target and a drafter. Units: ``*_pos`` absolute positions, ``*_tokens`` counts.

A row is one token at one position of one sequence. Rows are described per sequence, never per token, so that several
sequences with different lengths can share one evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

TokenId: TypeAlias = int
SeqId: TypeAlias = int
LogitsRows: TypeAlias = Literal["all", "last", "none"]


@attrs.frozen(kw_only=True)
class SequenceRows:
    """Consecutive rows of one sequence: token ``i`` stands at ``start_pos + i``."""

    seq_id: SeqId = 0
    start_pos: int
    tokens: Sequence[TokenId]
    logits: LogitsRows = "all"


@attrs.frozen(kw_only=True)
class TapRequest:
    """Hidden rows that a drafter wants from every target evaluation.

    Attributes:
        nextn: The state row that a multi-token-prediction head reads, width ``n_embd``.
        layers: Ids of layers whose *input* rows are wanted, in the order the drafter concatenates them.
    """

    nextn: bool = False
    layers: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self.nextn or bool(self.layers)


@attrs.frozen(kw_only=True, eq=False)
class Taps:
    """Hidden rows of some evaluated rows; owned copies that nobody changes, so a drafter may keep views of them.

    Shapes: ``nextn`` float32[n_rows, n_embd]; ``layers`` float32[n_rows, n_layers, n_embd], contiguous, the layers in
    the order of ``TapRequest.layers``. What was not asked for is None.
    """

    nextn: NDArray[np.float32] | None = None
    layers: NDArray[np.float32] | None = None


@attrs.frozen(kw_only=True, eq=False)
class CommittedRows:
    """Rows that belong to the sequence for good, in order, each exactly once.

    A drafter sees every prompt chunk and every committed round through this, and no rejected row, ever.
    ``taps`` has ``len(tokens)`` rows when the drafter asked for taps, else it is None.
    """

    seq_id: SeqId = 0
    start_pos: int
    tokens: Sequence[TokenId]
    taps: Taps | None = None
