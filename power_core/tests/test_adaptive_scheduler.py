"""The request-local controller: one test per rule, and the published cases of power_reference.md section 3.4."""

from __future__ import annotations

import pytest

from power_core.scheduling import AdaptiveScheduler, RoundOutcome
from power_core.scheduling.adaptive import WINDOW_ROUNDS


def opened(draft_max, draft_min, rollback, *rounds):
    """Return a controller that has seen (accepted, drafted) rounds, and its decisions."""
    decisions = []
    scheduler = AdaptiveScheduler(
        draft_max=draft_max, draft_min=draft_min, rollback_tokens=rollback, on_decision=decisions.append
    )
    see(scheduler, *rounds)
    return scheduler, decisions


def see(scheduler, *rounds):
    for accepted, drafted in rounds:
        scheduler.observe(RoundOutcome(asked_tokens=drafted, drafted_tokens=drafted, accepted_tokens=accepted))


def reasons(decisions):
    return [(decision.width_tokens, decision.reason) for decision in decisions]


@pytest.mark.parametrize(("draft_max", "window", "start"), [(7, 6, 6), (7, 7, 7), (3, 7, 3), (10, 6, 6), (1, 1, 1)])
def test_it_starts_at_the_smaller_of_k_and_s(draft_max, window, start):
    scheduler, decisions = opened(draft_max, 1, window)
    assert scheduler.next_limit(100, 100) == scheduler.width_tokens == start
    assert reasons(decisions) == [(start, "start")]


def test_a_fully_accepted_first_round_opens_k():
    scheduler, decisions = opened(10, 1, 6, (6, 6))
    assert scheduler.width_tokens == scheduler.cap_tokens == 10
    assert reasons(decisions)[-1] == (10, "opened")


@pytest.mark.parametrize("accepted", [0, 3, 5])
def test_any_other_first_round_closes_the_wide_path(accepted):
    scheduler, decisions = opened(10, 1, 6, (accepted, 6), (6, 6), (6, 6), (6, 6), (6, 6), (6, 6))
    assert scheduler.width_tokens == scheduler.cap_tokens == 6
    assert "closed" in [decision.reason for decision in decisions]
    assert scheduler.guard_round is None


def test_a_closed_wide_path_is_kept_at_the_safe_width():
    """Published: (10, 1, 10, 6) with (5, 6), (6, 6), (6, 6) stays at 6."""
    scheduler, _ = opened(10, 1, 6)
    for accepted in (5, 6, 6):
        see(scheduler, (accepted, 6))
        assert scheduler.width_tokens == 6


def test_a_rejection_beyond_the_window_caps_for_good():
    """Published: (7, 1, 7, 6) starts at 6; (6, 6) gives 7; (0, 7) caps at 6 in round 2."""
    scheduler, decisions = opened(7, 1, 6, (6, 6))
    assert scheduler.width_tokens == 7
    see(scheduler, (0, 7))
    assert (scheduler.cap_tokens, scheduler.guard_round) == (6, 2)
    assert scheduler.width_tokens == 3
    assert reasons(decisions)[-1] == (3, "guard")
    see(scheduler, (3, 3), (4, 4), (5, 5), (6, 6))
    assert scheduler.width_tokens == 6


def test_a_rejection_that_fits_the_window_does_not_cap():
    scheduler, _ = opened(7, 1, 6, (6, 6), (1, 7))
    assert (scheduler.cap_tokens, scheduler.guard_round) == (7, None)


def test_zero_accepted_halves_upwards():
    """Published: (7, 1, 7, 7) with (0, 7) gives 4, then (0, 4) gives 2."""
    scheduler, _ = opened(7, 1, 7, (0, 7))
    assert scheduler.width_tokens == 4
    see(scheduler, (0, 4))
    assert scheduler.width_tokens == 2
    see(scheduler, (0, 2), (0, 1))
    assert scheduler.width_tokens == 1


def test_zero_accepted_stops_at_the_minimum():
    scheduler, _ = opened(8, 3, 8, (0, 8), (0, 4), (0, 3))
    assert scheduler.width_tokens == 3


def test_full_rounds_grow_by_one():
    """Published: from 3 with (3, 3), (4, 4) to 5."""
    scheduler, _ = opened(7, 1, 7, (0, 7), (0, 4), (2, 2))
    assert scheduler.width_tokens == 3
    see(scheduler, (3, 3), (4, 4))
    assert scheduler.width_tokens == 5
    see(scheduler, (5, 5), (6, 6), (7, 7))
    assert scheduler.width_tokens == 7


def test_healthy_partial_rounds_keep_their_shape():
    """Published: (10, 1, 10, 10) with (5, 10), (7, 10) stays at 10."""
    scheduler, decisions = opened(10, 1, 10, (5, 10), (7, 10))
    assert scheduler.width_tokens == 10
    assert reasons(decisions) == [(10, "start")]


def test_a_perfect_wide_path_is_kept():
    scheduler, decisions = opened(7, 1, 7, *[(7, 7)] * 16)
    assert scheduler.width_tokens == 7
    assert len(decisions) == 1


def test_other_partial_rounds_follow_the_running_mean():
    scheduler, decisions = opened(10, 1, 10, (1, 10))
    assert scheduler.width_tokens == 2
    scheduler, decisions = opened(10, 1, 10, (10, 10), (4, 10))
    assert scheduler.width_tokens == 9
    assert reasons(decisions)[-1] == (9, "partial")


def test_the_running_mean_is_weighted_by_035():
    scheduler, _ = opened(20, 1, 20, (10, 20), (2, 20))
    assert scheduler.width_tokens == 9
    see(scheduler, (3, 9))
    assert scheduler.width_tokens == 7


def test_twelve_poor_rounds_end_drafting():
    """Published: 12 rounds that accept 1 every third end drafting after round 12, for good."""
    scheduler, decisions = opened(7, 1, 7)
    for index in range(WINDOW_ROUNDS):
        assert scheduler.target_only_round is None
        see(scheduler, (int(index % 3 == 0), scheduler.width_tokens))
    assert scheduler.target_only_round == WINDOW_ROUNDS
    assert scheduler.next_limit(100, 100) == 0
    assert decisions[-1].final
    assert reasons(decisions)[-1] == (0, "target-only")
    see(scheduler, *[(7, 7)] * 20)
    assert scheduler.next_limit(100, 100) == 0


def test_a_healthy_mixture_goes_on_drafting():
    """Published: 24 rounds of 0, 2, 2 keep drafting."""
    scheduler, _ = opened(7, 1, 7)
    for index in range(24):
        see(scheduler, (2 if index % 3 else 0, max(2, scheduler.width_tokens)))
    assert scheduler.target_only_round is None


def test_drafting_ends_only_when_half_the_rounds_were_zero_and_the_mean_is_low():
    scheduler, _ = opened(7, 1, 7, *[(0, 2)] * 5, *[(1, 2)] * 7, *[(0, 2)] * 5)
    assert scheduler.target_only_round is None
    see(scheduler, (0, 2))
    assert scheduler.target_only_round == 18
    scheduler, _ = opened(7, 1, 7, *[(0, 2), (0, 2), (1, 2), (2, 2)] * 12)
    assert scheduler.target_only_round is None


def test_rounds_without_drafts_teach_nothing():
    scheduler, _ = opened(10, 1, 6, *[(0, 0)] * 30, (6, 6))
    assert scheduler.width_tokens == 10


def test_more_accepted_than_drafted_counts_as_all():
    scheduler, _ = opened(7, 1, 7, (0, 7), (9, 4))
    assert scheduler.width_tokens == 5


def test_the_published_peak_run():
    """Published: K 10, S 6, 229 of 247 drafts (6 + 24 x 10 + 1) accepted in 26 rounds, 255 tokens."""
    scheduler, _ = opened(10, 1, 6)
    rejected = [0] + [1] * 18 + [0] * 7
    drafted, tokens = [], 0
    for missed in rejected:
        width = scheduler.next_limit(255 - tokens, 1000)
        see(scheduler, (width - missed, width))
        drafted.append(width)
        tokens += width - missed + 1
    assert drafted == [6, *[10] * 24, 1]
    assert (sum(drafted), sum(drafted) - sum(rejected), tokens) == (247, 229, 255)
