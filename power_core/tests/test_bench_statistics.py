"""Intervals: deterministic, between the extremes, and wide where prompts differ."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.bench.statistics import median_interval, ratio_interval

VALUES = st.floats(0.01, 100.0)
GROUPS = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.lists(VALUES, min_size=size, max_size=size), min_size=1, max_size=5)
)


@settings(max_examples=20, deadline=None)
@given(GROUPS)
def test_an_interval_lies_between_the_extremes_and_is_the_same_again(groups: list[list[float]]):
    interval = median_interval(groups)
    values = [value for group in groups for value in group]
    assert min(values) <= interval.low <= interval.high <= max(values)
    assert median_interval(groups) == interval


def test_values_that_agree_give_an_interval_of_no_width():
    interval = median_interval([[2.5] * 4] * 3)
    assert interval.low == interval.high == 2.5
    assert ratio_interval([[2.0, 2.0]], [[4.0, 4.0]]).low == 0.5


def test_prompts_that_differ_widen_the_interval_more_than_repeats_that_do():
    between = median_interval([[1.0] * 5, [2.0] * 5, [3.0] * 5, [4.0] * 5])
    within = median_interval([[1.0, 2.0, 2.5, 3.0, 4.0]] * 4)
    assert between.high - between.low > within.high - within.low


def test_an_interval_covers_the_true_median_about_as_often_as_it_says():
    rng = random.Random(5)
    hits = 0
    for _ in range(40):
        interval = median_interval([[rng.gauss(1.0, 0.1) for _ in range(3)] for _ in range(8)])
        hits += interval.low <= 1.0 <= interval.high
    assert 34 <= hits <= 40


def test_a_large_set_is_resampled_in_parts(monkeypatch: pytest.MonkeyPatch):
    groups = [[float(index + place) for place in range(5)] for index in range(4)]
    whole = median_interval(groups)
    monkeypatch.setattr("power_core.bench.statistics.VALUES_AT_ONCE", 999)
    parts = median_interval(groups)
    assert parts.low == pytest.approx(whole.low, abs=0.5)
    assert parts.high == pytest.approx(whole.high, abs=0.5)
