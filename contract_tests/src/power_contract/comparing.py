"""What proposals are compared by, and the contexts that a drafter opened."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from power_core.drafter import Proposal
from power_core.target import TargetContext
from power_core.tokens import TokenId


def shown(proposal: Proposal) -> tuple[list[TokenId], list[float] | None]:
    """Return what two proposals are compared by; confidences count bit for bit."""
    confidence: NDArray[np.float32] | None = proposal.confidence
    return [int(token) for token in proposal.tokens], None if confidence is None else np.asarray(confidence).tolist()


def live_contexts(like: TargetContext) -> list[Any]:
    """Return every context of that very type in this process, open or closed."""
    return [each for each in gc.get_objects() if type(each) is type(like)]
