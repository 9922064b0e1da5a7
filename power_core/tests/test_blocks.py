"""Geometry of anchored blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.blocks import BlockGeometry

GEOMETRIES = st.builds(
    BlockGeometry, block_size_rows=st.integers(min_value=2, max_value=64), predicts_at_anchor=st.booleans()
)


@pytest.mark.parametrize(
    ("block_size_rows", "predicts_at_anchor", "most_drafts"),
    [(16, False, 15), (7, True, 7), (2, False, 1), (8, False, 7)],
)
def test_most_drafts_of_published_block_sizes(block_size_rows: int, predicts_at_anchor: bool, most_drafts: int) -> None:
    geometry = BlockGeometry(block_size_rows=block_size_rows, predicts_at_anchor=predicts_at_anchor)
    assert geometry.most_drafts == most_drafts


def test_anchor_first_block() -> None:
    geometry = BlockGeometry(block_size_rows=8, predicts_at_anchor=True)
    assert (geometry.rows(3), geometry.first_draft_row) == (3, 0)


def test_bonus_anchor_block() -> None:
    geometry = BlockGeometry(block_size_rows=8, predicts_at_anchor=False)
    assert (geometry.rows(3), geometry.first_draft_row) == (4, 1)


@given(GEOMETRIES, st.data())
def test_every_draft_has_a_row_and_the_widest_block_is_the_trained_one(
    geometry: BlockGeometry, data: st.DataObject
) -> None:
    drafts = data.draw(st.integers(min_value=1, max_value=geometry.most_drafts))
    assert geometry.rows(drafts) - geometry.first_draft_row == drafts
    assert geometry.rows(geometry.most_drafts) == geometry.block_size_rows
