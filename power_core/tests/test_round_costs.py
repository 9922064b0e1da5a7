"""Costs by size from noisy samples, expected cost of sliced rounds, and acceptance by position."""

from __future__ import annotations

import random

import pytest

from power_core.scheduling import RoundOutcome
from power_core.scheduling.acceptance_model import (
    INHERITED_TRIALS,
    PRIOR_ACCEPTANCE,
    TRIAL_DECAY,
    AcceptanceModel,
)
from power_core.scheduling.cost_model import (
    CAUTION,
    DOUBT_ROUNDS,
    MOST_SURPRISE_ROUNDS,
    SETTLED,
    SURE_SAMPLES,
    CostCurve,
    RoundCosts,
)


def outcome(asked, drafted, accepted, **rest):
    return RoundOutcome(asked_tokens=asked, drafted_tokens=drafted, accepted_tokens=accepted, **rest)


def test_an_empty_curve_knows_nothing():
    curve = CostCurve()
    assert curve.table(1, 3) == [0.0, 0.0, 0.0]
    assert curve.estimate(1) == 0.0
    assert not curve.is_sure(1)


def test_a_sample_well_below_the_mean_is_counted_as_the_first():
    curve = CostCurve()
    for cost in (50.0, 40.0, 10.0):
        curve.add(1, cost)
        assert curve.estimate(1) == cost
    for _ in range(SURE_SAMPLES - 1):
        assert not curve.is_sure(1)
        curve.add(1, 10.0 * (1.0 - SETTLED / 2))
    assert curve.is_sure(1)
    curve.add(1, 10.0 * (1.0 - 2 * SETTLED))
    assert curve.is_sure(1)


def test_noise_and_outliers_hardly_move_a_mean():
    rng, curve = random.Random(4), CostCurve()
    for index in range(400):
        curve.add(3, 100.0 * rng.gauss(1.0, 0.1) * (8.0 if index % 50 == 20 else 1.0))
    assert curve.estimate(3) == pytest.approx(100.0, rel=0.04)


def test_a_size_between_lies_nearer_to_the_smaller_one_than_the_line():
    curve = CostCurve()
    for _ in range(SURE_SAMPLES):
        curve.add(1, 10.0)
        curve.add(5, 30.0)
    below, beyond = ([start + CAUTION * 5.0 * step for step in range(4)] for start in (10.0, 30.0))
    assert curve.table(1, 7) == pytest.approx([*below, *beyond[:3]])


def test_a_size_not_seen_lately_is_not_fresh():
    curve = CostCurve()
    for _ in range(SURE_SAMPLES):
        curve.add(1, 10.0)
    for _ in range(600):
        curve.add(2, 20.0)
    assert curve.is_sure(1)
    assert not curve.is_fresh(1)


def test_slices_that_nobody_needs_cost_nothing():
    costs = RoundCosts(7)
    for _ in range(SURE_SAMPLES):
        costs.learn(outcome(0, 0, 0, verify_ns=10, slice_rows=4))
        costs.learn(outcome(3, 3, 0, verify_ns=30, slice_rows=4))
        costs.learn(outcome(5, 5, 5, verify_ns=50, slice_rows=4, target_calls=2))
    zero = costs.verify_table([1.0] + [0.0] * 7)
    assert zero[3:] == pytest.approx([30.0] * 5)
    full = costs.verify_table([1.0] * 8)
    assert full[7] == pytest.approx(60.0)
    assert full[5] == pytest.approx(50.0)
    half = costs.verify_table([1.0, 0.9, 0.8, 0.7, 0.5, 0.4, 0.3, 0.2])
    assert half[7] == pytest.approx(30.0 + 0.5 * 30.0)


def test_a_round_of_whole_slices_is_shared_by_its_calls():
    costs = RoundCosts(7)
    costs.learn(outcome(7, 7, 7, verify_ns=80, slice_rows=4, target_calls=2))
    assert costs.verify_table([1.0] * 8)[3] == 40.0
    costs.learn(outcome(7, 7, 0, verify_ns=20, slice_rows=4, target_calls=1))
    assert costs.verify_table([1.0] * 8)[3] == 20.0


def test_the_pace_follows_a_slower_machine_for_all_sizes():
    costs = RoundCosts(3)
    for _ in range(80):
        costs.learn(outcome(0, 0, 0, verify_ns=1000))
        costs.learn(outcome(3, 3, 3, draft_ns=100, verify_ns=1900))
    for _ in range(60):
        costs.learn(outcome(3, 3, 3, draft_ns=200, verify_ns=3800))
    assert costs.pace * costs.baseline == pytest.approx(2000, rel=0.1)


def test_what_a_round_counts_for_is_cut_where_it_is_an_outlier():
    costs = RoundCosts(3)
    for _ in range(SURE_SAMPLES):
        costs.learn(outcome(0, 0, 0, verify_ns=1000))
    assert costs.learn(outcome(0, 0, 0, verify_ns=50_000)) == pytest.approx(1250)


def test_a_stall_among_the_first_samples_is_left_out_once():
    costs = RoundCosts(3)
    for _ in range(SURE_SAMPLES):
        costs.learn(outcome(0, 0, 0, verify_ns=1000))
    before = costs.verify_table([1.0] * 4)
    counted = costs.learn(outcome(3, 3, 3, draft_ns=90_000, verify_ns=10_000))
    assert costs.verify_table([1.0] * 4) == before
    assert counted == pytest.approx(MOST_SURPRISE_ROUNDS * costs.baseline)
    assert costs.learn(outcome(3, 3, 3, draft_ns=90_000, verify_ns=10_000)) == counted
    assert costs.draft_table()[3] == pytest.approx(90_000)
    assert costs.verify_table([1.0] * 4)[3] == 10_000


def test_a_slice_that_was_never_alone_is_not_charged_to_the_rest():
    """Blocks of 4 + 2 rows, fully accepted from the start: the rest does not cost what both slices took."""
    costs = RoundCosts(5)
    for _ in range(SURE_SAMPLES):
        costs.learn(outcome(0, 0, 0, verify_ns=10, slice_rows=4))
        costs.learn(outcome(5, 5, 5, verify_ns=24, slice_rows=4, target_calls=2))
    assert costs.verify_table([1.0] * 6)[1] == pytest.approx(12.0, abs=2.0)
    assert costs.verify_table([1.0] * 6)[5] == pytest.approx(24.0, abs=2.0)


def test_hope_comes_first_and_every_position_inherits_from_the_one_before():
    model = AcceptanceModel(3)
    assert model.reach() == pytest.approx([1.0, PRIOR_ACCEPTANCE, PRIOR_ACCEPTANCE**2, PRIOR_ACCEPTANCE**3])
    for _ in range(200):
        model.learn(outcome(1, 1, 0))
    reach = model.reach()
    assert reach[1] < 0.15
    assert reach[3] < reach[2] < reach[1]


def test_acceptance_is_conditional_on_being_reached():
    model = AcceptanceModel(3)
    for index in range(400):
        model.learn(outcome(3, 3, 1 + 2 * (index % 2)))
    reach, trials = model.reach(), 1.0 / (1.0 - TRIAL_DECAY)
    assert reach[1] == pytest.approx(1.0, abs=0.02)
    assert reach[2] == pytest.approx((0.5 * trials + INHERITED_TRIALS) / (trials + INHERITED_TRIALS), abs=0.04)
    assert reach[3] / reach[2] == pytest.approx(1.0, abs=0.12)


def test_short_proposals_are_counted_apart_from_rejections():
    model = AcceptanceModel(3)
    for index in range(400):
        drafted = 3 * (index % 4 == 0)
        model.learn(outcome(3, drafted, drafted))
    assert model.proposed()[1] == pytest.approx(0.25, abs=0.12)
    assert model.reach()[3] == pytest.approx(1.0, abs=0.05)


def test_what_is_not_tried_fades_towards_the_position_before():
    model = AcceptanceModel(2)
    for _ in range(100):
        model.learn(outcome(2, 2, 1))
    low = model.reach()[2]
    for _ in range(100):
        model.fade(20)
        model.learn(outcome(1, 1, 1))
    assert low < 0.3 < 0.8 < model.reach()[2]


def test_a_dear_size_with_few_samples_is_guessed_again_after_a_while():
    curve = CostCurve()
    for _ in range(SURE_SAMPLES):
        curve.add(1, 100.0)
    curve.add(4, 5_000.0)
    assert curve.table(4, 4) == [5_000.0]
    for _ in range(DOUBT_ROUNDS):
        curve.add(1, 100.0)
    assert curve.table(4, 4) == [pytest.approx(130.0)]
    curve.add(4, 5_000.0)
    curve.add(4, 200.0)
    assert curve.table(4, 4) == [200.0]


def test_a_size_with_few_samples_that_was_not_dear_is_believed():
    curve = CostCurve()
    for _ in range(SURE_SAMPLES):
        curve.add(1, 100.0)
    curve.add(4, 250.0)
    for _ in range(2 * DOUBT_ROUNDS):
        curve.add(1, 100.0)
    assert curve.table(4, 4) == [250.0]
