"""Zones of depth: a backend may choose other kernels, or sum in another order, where the context is longer.

One measurement stands for the zone that it was taken in. Backends work on a length padded to a whole number of steps,
and the kernels known to us change at the first and second step; further out a zone is four times as deep as the last.
"""

from __future__ import annotations

STEP_TOKENS = 256
SHORT_ZONE = 0
EDGE_ZONE = STEP_TOKENS - 1


def zone_of(depth_tokens: int, rows: int) -> int:
    """Return the zone of a slice of ``rows`` rows that follows ``depth_tokens`` positions, named by where it starts.

    The zone just before a step is one of its own: its slices cross the step, while their single rows would not. It is
    measured at its last position, where every slice of two rows or more does.
    """
    if depth_tokens < STEP_TOKENS:
        return EDGE_ZONE if depth_tokens + rows > STEP_TOKENS else SHORT_ZONE
    if depth_tokens < 2 * STEP_TOKENS:
        return STEP_TOKENS
    start_tokens = 2 * STEP_TOKENS
    while depth_tokens >= 4 * start_tokens:
        start_tokens *= 4
    return start_tokens


def zone_end(depth_tokens: int, rows: int) -> int:
    """Return the first depth behind ``depth_tokens`` that lies in another zone."""
    if depth_tokens < 2 * STEP_TOKENS:
        edges = (STEP_TOKENS - rows + 1, STEP_TOKENS, 2 * STEP_TOKENS)
        return next(edge for edge in edges if edge > depth_tokens)
    return 4 * zone_of(depth_tokens, rows)
