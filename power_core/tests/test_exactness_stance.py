"""What a session does and claims, for every arithmetic and measured width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.exactness.stance import take_stance

AUTHORITATIVE, GUARDED = "target-authoritative", "margin-guarded"


@pytest.mark.parametrize(
    ("arithmetic", "greedy", "widest", "rows", "guarantee"),
    [
        ("exact", True, 5, 5, "bit-identical(5)"),
        ("exact", True, 9, 5, "bit-identical(5)"),
        ("exact", True, 3, 3, "bit-identical(3)"),
        ("exact", False, 3, 3, "bit-identical(3)"),
        ("exact", True, 1, 5, GUARDED),
        ("exact", False, 1, 1, "bit-identical(1)"),
        ("exact", True, 0, 5, GUARDED),
        ("exact", False, 0, 5, AUTHORITATIVE),
        ("guarded", True, 5, 5, "bit-identical(5)"),
        ("guarded", False, 5, 5, "bit-identical(5)"),
        ("guarded", True, 4, 5, GUARDED),
        ("guarded", True, 0, 5, GUARDED),
        ("guarded", False, 4, 5, AUTHORITATIVE),
        ("fast", True, 5, 5, AUTHORITATIVE),
        ("fast", False, 1, 5, AUTHORITATIVE),
    ],
)
def test_the_table(arithmetic, greedy, widest, rows, guarantee):
    stance = take_stance(arithmetic, greedy=greedy, slice_rows=5, widest_rows=widest)
    assert (stance.slice_rows, stance.guarantee) == (rows, guarantee)
    assert stance.guarded == (guarantee == GUARDED)


@given(
    arithmetic=st.sampled_from(["exact", "guarded", "fast"]),
    greedy=st.booleans(),
    planned=st.integers(1, 65),
    widest=st.integers(0, 65),
)
def test_nothing_unmeasured_is_claimed(arithmetic, greedy, planned, widest):
    stance = take_stance(arithmetic, greedy=greedy, slice_rows=planned, widest_rows=widest)
    assert 1 <= stance.slice_rows <= planned
    if stance.guarantee.startswith("bit-identical"):
        assert stance.guarantee == f"bit-identical({stance.slice_rows})"
        assert stance.slice_rows <= widest
        assert arithmetic != "fast"
    if stance.guarded:
        assert greedy
