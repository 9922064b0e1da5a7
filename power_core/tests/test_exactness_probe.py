"""The probe: what it measures on arithmetic with planted faults, and that it leaves everything as it was."""

from __future__ import annotations

import numpy as np
import pytest
from core_sessions import N_VOCAB
from hypothesis import given
from hypothesis import strategies as st
from noisy_targets import exact_up_to, open_noisy_context

from power_core.errors import Cancelled
from power_core.exactness.guarantor import fill_context
from power_core.exactness.probe import ProbeCell, ProbeTable, largest_difference, measure_rows, probe_tokens
from power_core.exactness.zones import EDGE_ZONE, SHORT_ZONE, STEP_TOKENS, zone_of

WIDTHS = tuple(range(1, 9))


def measured(context, depth=20, widths=WIDTHS):
    fill_context(context, probe_tokens(depth, N_VOCAB))
    return ProbeTable(cells=measure_rows(context, probe_tokens(max(widths), N_VOCAB), widths))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("widest", [1, 2, 5, 7, 8])
def test_the_widest_equal_slice_is_found(widest, recurrent):
    table = measured(open_noisy_context(exact_up_to(widest), recurrent=recurrent))
    assert table.widest_rows == widest
    assert table.largest_difference == (0.0 if widest == 8 else 2**-8)
    assert table.depths_tokens == (20,)


def test_a_wider_slice_that_happens_to_be_equal_does_not_count_over_a_gap():
    table = measured(open_noisy_context(lambda depth, rows: 0.25 if rows == 4 else 0.0))
    assert table.widest_rows == 3
    assert [cell.rows for cell in table.cells if cell.difference] == [4]


def test_one_wrong_row_of_a_slice_is_enough():
    context = open_noisy_context(exact_up_to(8))
    whole = context.logits
    context.logits = lambda row: whole(row) + np.float32(2**-12 if row == 2 and len(context._rows) == 6 else 0.0)
    assert measured(context).widest_rows == 5


def test_a_backend_that_does_not_repeat_itself_has_no_exact_width_at_all():
    context = open_noisy_context(exact_up_to(8))
    count, whole = iter(range(10**6)), context.logits
    context.logits = lambda row: whole(row) + np.float32(next(count) * 2**-16)
    table = measured(context)
    assert table.widest_rows == 0
    assert table.largest_difference > 0.0


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_sequence_is_as_it_was(recurrent):
    context = open_noisy_context(exact_up_to(3), recurrent=recurrent)
    measured(context, depth=40)
    assert context.tokens() == probe_tokens(40, N_VOCAB)
    assert not context.is_stale()


def test_every_slice_starts_from_the_same_state():
    context = open_noisy_context(exact_up_to(8))
    measured(context, widths=(2, 5))
    starts = [rows.start_pos for (rows,) in context.evaluations if rows.logits == "all"]
    widths = [len(rows.tokens) for (rows,) in context.evaluations if rows.logits == "all"]
    assert starts == [20, 21, 22, 23, 24, 20, 20]
    assert widths == [1, 1, 1, 1, 1, 2, 5]


def test_an_abort_comes_out_of_it():
    context = open_noisy_context(exact_up_to(8))
    context.abort_after_rows = 3
    with pytest.raises(Cancelled):
        measured(context, depth=2)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([0.0], [-0.0], float(np.finfo(np.float32).tiny)),
        ([float("-inf")], [float("-inf")], 0.0),
        ([float("nan")], [1.0], float(np.finfo(np.float32).max)),
        ([float("inf")], [1.0], float(np.finfo(np.float32).max)),
    ],
)
def test_only_equal_bits_are_no_difference(one, other, difference):
    assert largest_difference(np.array(one, np.float32), np.array(other, np.float32)) == difference


def test_a_table_keeps_the_last_cell_of_a_place_and_knows_what_is_missing():
    old = ProbeCell(depth_tokens=8, rows=2, difference=1.0)
    new = ProbeCell(depth_tokens=8, rows=2, difference=0.0)
    table = ProbeTable(cells=(old,)).with_cells([new, ProbeCell(depth_tokens=8, rows=1, difference=0.0)])
    assert table.widest_rows == 2
    assert table.missing_rows(4) == (3, 4)
    assert ProbeTable().widest_rows == 0


@given(depth=st.integers(0, 10**6), rows=st.integers(1, 65))
def test_zones_are_ascending_and_start_where_they_say(depth, rows):
    zone = zone_of(depth, rows)
    assert zone_of(depth + 1, rows) >= zone
    assert depth + rows > zone
    assert zone == EDGE_ZONE or depth >= zone


@pytest.mark.parametrize(
    ("depth", "rows", "zone"),
    [
        (0, 8, SHORT_ZONE),
        (248, 8, SHORT_ZONE),
        (249, 8, EDGE_ZONE),
        (255, 2, EDGE_ZONE),
        (255, 1, SHORT_ZONE),
        (256, 8, STEP_TOKENS),
        (511, 8, STEP_TOKENS),
        (512, 8, 512),
        (2047, 8, 512),
        (2048, 8, 2048),
        (8192, 8, 8192),
    ],
)
def test_zone_limits(depth, rows, zone):
    assert zone_of(depth, rows) == zone


def test_a_measurement_stands_for_its_zone_only():
    table = ProbeTable(
        cells=tuple(
            ProbeCell(depth_tokens=depth, rows=rows, difference=0.0) for depth in (8, 300) for rows in (1, 2, 3)
        )
    )
    assert table.in_zone(SHORT_ZONE, 3).depths_tokens == (8,)
    assert table.in_zone(STEP_TOKENS, 2).cells == tuple(cell for cell in table.cells[3:] if cell.rows <= 2)
    assert table.in_zone(512, 3).cells == ()
