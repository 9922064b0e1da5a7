"""Widths: bounds, the minimum batch, the guard. The published cases of power_reference.md are here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.scheduling import (
    FixedScheduler,
    GuardedScheduler,
    RoundOutcome,
    SchedulerSource,
    bounded_draft_len,
    minimum_batch_rows,
)


def outcome(accepted, drafted, **rest):
    return RoundOutcome(asked_tokens=drafted, drafted_tokens=drafted, accepted_tokens=accepted, **rest)


@pytest.mark.parametrize(
    ("wanted", "tokens", "context", "expected"),
    [(4, 5, 8, 4), (4, 3, 8, 2), (4, 5, 2, 2), (4, 1, 8, 0), (4, 0, 8, 0)],
)
def test_bounded_draft_len(wanted, tokens, context, expected):
    assert bounded_draft_len(wanted, tokens, context) == expected


@pytest.mark.parametrize(("draft_max", "rows"), [(0, 2), (3, 5), (64, 66)])
def test_minimum_batch_rows(draft_max, rows):
    assert minimum_batch_rows(draft_max) == rows


def test_the_guard_keeps_the_width_while_rejections_fit():
    guard = GuardedScheduler(FixedScheduler(7), 6)
    for accepted in (7, 1, 3):
        guard.observe(outcome(accepted, 7))
        assert guard.next_limit(100, 100) == 7
    assert not guard.activated


def test_the_guard_clamps_for_good_after_the_first_oversized_rejection():
    guard = GuardedScheduler(FixedScheduler(7), 6)
    guard.observe(outcome(0, 7))
    assert guard.activated
    guard.observe(outcome(6, 6))
    assert guard.next_limit(100, 100) == guard.draft_limit == 6


def test_a_complete_window_never_narrows():
    guard = GuardedScheduler(FixedScheduler(7), 7)
    for _ in range(50):
        guard.observe(outcome(0, 7))
    assert guard.next_limit(100, 100) == 7


def test_a_wider_window_does_not_expand_the_width():
    guard = GuardedScheduler(FixedScheduler(3), 7)
    assert guard.next_limit(100, 100) == 3


ROUNDS = st.lists(
    st.tuples(st.integers(0, 14), st.integers(0, 14), st.integers(0, 12), st.integers(0, 12), st.integers(0, 10**9)),
    max_size=40,
)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("name", ["fixed", "adaptive", "goodput"])
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 13), ROUNDS)
def test_no_scheduler_goes_past_budget_context_k_or_the_guard(name, guarded, draft_max, window, slice_rows, rounds):
    decisions = []
    window = min(window, draft_max)
    source = SchedulerSource(name, draft_max=draft_max, rollback_tokens=window, guard_rows=window if guarded else None)
    scheduler, most = source.open(decisions.append), draft_max
    for tokens, context, proposed, right, time_ns in rounds:
        asked = scheduler.next_limit(tokens, context)
        assert 0 <= asked <= bounded_draft_len(most, tokens, context)
        drafted = min(asked, proposed)
        accepted = min(drafted, right)
        scheduler.observe(
            RoundOutcome(
                asked_tokens=asked,
                drafted_tokens=drafted,
                accepted_tokens=accepted,
                draft_ns=time_ns // 3,
                verify_ns=time_ns,
                slice_rows=slice_rows,
                target_calls=accepted // slice_rows + 1,
            )
        )
        if drafted - accepted > window and (guarded or name == "adaptive"):
            most = window
    assert all(0 <= decision.width_tokens <= draft_max for decision in decisions)


@pytest.mark.parametrize("name", ["fixed", "adaptive", "goodput"])
def test_without_a_strategy_nothing_is_decided(name):
    decisions = []
    scheduler = SchedulerSource(name, draft_max=0, rollback_tokens=0).open(decisions.append)
    assert scheduler.next_limit(100, 100) == 0
    assert decisions == []
