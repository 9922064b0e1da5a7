"""Tests of hypotheses, small enough to need no library: equal distributions, and uniform p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def chi_square_p(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return the p-value of "both counts come from one distribution"; 1.0 when there is a single outcome.

    Args:
        first: Counts by outcome.
        second: Counts of the same outcomes from independent draws.

    Source: Pearson's test of homogeneity.
    """
    counts = np.stack([first, second]).astype(np.float64)
    counts = counts[:, counts.sum(axis=0) > 0]
    freedom = counts.shape[1] - 1
    if freedom < 1:
        return 1.0
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    return _chi_square_tail(float(((counts - expected) ** 2 / expected).sum()), freedom)


def permuted_p(
    first: NDArray[np.int64], second: NDArray[np.int64], random: np.random.Generator, permutations: int = 199
) -> float:
    """Return the p-value of "both samples come from one distribution", exact for samples of any size.

    The statistic is Pearson's, summed over the columns. It is ranked among those of the same rows dealt to the two
    samples at random, ties in a random order, so under the hypothesis every rank is equally likely.

    Args:
        first: Outcomes int64[samples, columns], 0 or more; the columns of a sample may depend on each other.
        second: Independent samples of the same columns.
        random: Deals the rows and breaks ties.
        permutations: Deals to compare with; the p-value is a multiple of 1 / (permutations + 1), smeared evenly.
    """
    rows = np.concatenate([first, second])
    outcomes = (rows[:, :, None] == np.arange(rows.max() + 1)).reshape(len(rows), -1).astype(np.int64)
    totals = outcomes.sum(axis=0)
    outcomes, totals = outcomes[:, totals > 0], totals[totals > 0]
    dealt = np.zeros((permutations + 1, len(rows)), dtype=np.int64)
    dealt[:, : len(first)] = 1
    dealt[1:] = random.permuted(dealt[1:], axis=1)
    expected = totals * len(first) / len(rows)
    distances = ((dealt @ outcomes - expected) ** 2 / expected).sum(axis=1)
    ties = np.isclose(distances[1:], distances[0])
    larger = np.count_nonzero((distances[1:] > distances[0]) & ~ties)
    return float((larger + random.random() * (np.count_nonzero(ties) + 1)) / (permutations + 1))


def uniform_p(values: Sequence[float]) -> float:
    """Return the p-value of "these values are uniform on 0..1" (Kolmogorov-Smirnov, Stephens' approximation)."""
    ordered = np.sort(np.asarray(values))
    count = len(ordered)
    steps = np.arange(1, count + 1) / count
    distance = max(float((steps - ordered).max()), float((ordered - steps + 1 / count).max()))
    scaled = distance * (math.sqrt(count) + 0.12 + 0.11 / math.sqrt(count))
    if scaled < 0.2:
        return 1.0
    tail = 2 * sum((-1.0) ** (k - 1) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
    return min(1.0, max(0.0, float(tail)))


def _chi_square_tail(value: float, freedom: int) -> float:
    """Probability of more than ``value``: the closed forms for whole degrees of freedom, from 1 or 2 upwards."""
    half = value / 2
    if freedom % 2:
        tail, term, power = math.erfc(math.sqrt(half)), math.exp(-half) * math.sqrt(half / math.pi) * 2, 1.5
    else:
        tail, term, power = math.exp(-half), math.exp(-half) * half, 2.0
    for _ in range((freedom - 1) // 2):
        tail += term
        term *= half / power
        power += 1
    return tail
