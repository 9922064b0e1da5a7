"""Intervals of medians. Deterministic: the random numbers of the resampling have a fixed seed."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

RESAMPLES = 4_000
CONFIDENCE = 0.95
SEED = 20_240_817
VALUES_AT_ONCE = 4_000_000


@attrs.frozen(kw_only=True)
class Interval:
    """Ends of a confidence interval."""

    low: float
    high: float


def median_interval(groups: Sequence[Sequence[float]]) -> Interval:
    """Return the interval of the median over all values: percentiles of bootstrap medians.

    Groups (prompts) are drawn with replacement, then the values (repeats) within each: values of one group are alike,
    and a new prompt varies more than a new repeat.

    Args:
        groups: At least one, all of the same size, at least one value each.
    """
    return _percentiles(_bootstrap_medians(groups, SEED))


def ratio_interval(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> Interval:
    """Return the interval of the ratio of two medians whose values are not paired; groups as in ``median_interval``."""
    return _percentiles(_bootstrap_medians(above, SEED) / _bootstrap_medians(below, SEED + 1))


def _percentiles(medians: NDArray[np.float64]) -> Interval:
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(medians, [tail, 100.0 - tail])
    return Interval(low=float(low), high=float(high))


def _bootstrap_medians(groups: Sequence[Sequence[float]], seed: int) -> NDArray[np.float64]:
    values = np.asarray(groups, dtype=np.float64)  # float64[n_groups, n_values]
    n_groups, n_values = values.shape
    rng = np.random.default_rng(seed)
    most = max(1, VALUES_AT_ONCE // values.size)
    parts = []
    for done in range(0, RESAMPLES, most):
        count = min(most, RESAMPLES - done)
        chosen_groups = rng.integers(n_groups, size=(count, n_groups, 1))
        chosen_values = rng.integers(n_values, size=(count, n_groups, n_values))
        parts.append(np.median(values[chosen_groups, chosen_values].reshape(count, -1), axis=1))
    return np.concatenate(parts)
