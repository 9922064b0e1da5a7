"""Widths: bounds, the minimum batch, the guard. The published cases of power_reference.md are here."""

from __future__ import annotations

import pytest

from power_core.scheduling import FixedScheduler, GuardedScheduler, bounded_draft_len, minimum_batch_rows


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
        guard.observe(accepted, 7)
        assert guard.next_limit(100, 100) == 7
    assert not guard.activated


def test_the_guard_clamps_for_good_after_the_first_oversized_rejection():
    guard = GuardedScheduler(FixedScheduler(7), 6)
    guard.observe(0, 7)
    assert guard.activated
    guard.observe(6, 6)
    assert guard.next_limit(100, 100) == guard.draft_limit == 6


def test_a_complete_window_never_narrows():
    guard = GuardedScheduler(FixedScheduler(7), 7)
    for _ in range(50):
        guard.observe(0, 7)
    assert guard.next_limit(100, 100) == 7


def test_a_wider_window_does_not_expand_the_width():
    guard = GuardedScheduler(FixedScheduler(3), 7)
    assert guard.next_limit(100, 100) == 3
