"""The margin of a row: the distance that noise would have to cross."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.exactness.margin_guard import margin


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([3.0, 1.0, 2.5], 0.5),
        ([1.0, 2.5, 3.0], 0.5),
        ([2.0, 2.0, 1.0], 0.0),
        ([-5.0, -7.0], 2.0),
        ([1.0, float("-inf")], math.inf),
        ([1.0], math.inf),
    ],
)
def test_margin(logits, expected):
    assert margin(np.array(logits, np.float32)) == expected


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=30))
def test_noise_below_half_the_margin_changes_no_choice(values):
    logits = np.array(values, np.float32)
    rng = np.random.default_rng(len(values))
    noise = rng.uniform(-0.49, 0.49, len(values)).astype(np.float32) * np.float32(margin(logits))
    if margin(logits) > 0.0:
        assert (logits + noise).argmax() == logits.argmax()
    else:
        assert sorted(values)[-1] == sorted(values)[-2]
