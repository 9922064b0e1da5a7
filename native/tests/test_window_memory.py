"""A sliding window's memory is a ring: rows that come and go at its end leave equal bits in every later row.

The tiny target's window is 32 tokens, its ring 256 cells. ``truth`` holds the logits of plain decoding, one row at a
time; whatever else happens in a context, a row at a position has exactly those.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import Cancelled
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows

pytestmark = pytest.mark.native

RING = 256
WINDOW = 32
BEFORE, BEHIND = 40, 104
TOKENS = [(7 * index + 11) % 400 for index in range(2 * RING + BEHIND)]
WRONG = 9
OPTIONS = ContextSettings(ctx_tokens=1024, batch_rows=32, threads=1, sequences=2)


@pytest.fixture
def context(models):
    with models["sliding-window"].open_context(OPTIONS) as opened:
        yield opened


@pytest.fixture(scope="module")
def truth(models):
    """Logits by position, around the two ends of the ring; elsewhere NaN."""
    rows = np.full((len(TOKENS), 512), np.nan, np.float32)
    with models["sliding-window"].open_context(OPTIONS) as context:
        for end in (RING, 2 * RING):
            advance(context, end - BEFORE)
            for position in range(end - BEFORE, end + BEHIND):
                evaluate(context, [TOKENS[position]])
                rows[position] = context.logits(0)
        assert context.first_pos() == len(TOKENS) - RING
    return rows


@pytest.fixture(scope="module")
def near_end(models):
    """A context of two sequences just before the ring's end, and a function that brings one back there."""
    with models["sliding-window"].open_context(OPTIONS) as context:
        for seq_id in (0, 1):
            advance(context, RING - BEFORE, seq_id)
        checkpoints = [context.checkpoint(seq_id) for seq_id in (0, 1)]
        yield context, lambda seq_id: context.restore(checkpoints[seq_id])


def evaluate(context, tokens, seq_id=0, logits="last"):
    rows = SequenceRows(seq_id=seq_id, start_pos=context.length_tokens(seq_id), tokens=tokens, logits=logits)
    context.evaluate([rows], kernels="decode")


def advance(context, length, seq_id=0):
    """Evaluate the true tokens up to a length."""
    while (start := context.length_tokens(seq_id)) < length:
        evaluate(context, TOKENS[start : min(start + 32, length)], seq_id)


def reject(context, width, kept, seq_id=0):
    """Evaluate a block of ``width`` rows of which the first ``kept`` are true, and drop the rest."""
    start = context.length_tokens(seq_id)
    evaluate(context, TOKENS[start : start + kept] + [WRONG] * (width - kept), seq_id)
    context.truncate(start + kept, seq_id)


def check_rows(context, truth, count, step, seq_id=0):
    """Evaluate the next true tokens and compare every row."""
    end = context.length_tokens(seq_id) + count
    while (start := context.length_tokens(seq_id)) < end:
        tokens = TOKENS[start : min(start + step, end)]
        evaluate(context, tokens, seq_id, logits="all")
        found = np.stack([context.logits(row) for row in range(len(tokens))])
        assert np.array_equal(found, truth[start : start + len(tokens)]), f"positions {start}.."


@pytest.mark.parametrize(("end", "width"), [(RING, 2), (RING, 8), (RING, 17), (RING, 32), (2 * RING, 8)])
def test_a_rejected_block_at_the_rings_end_leaves_no_trace(context, truth, end, width):
    first = end - width - 1
    advance(context, first)
    for start in range(first, end + 2):
        context.truncate(first)
        advance(context, start)
        reject(context, width, kept=1)
        check_rows(context, truth, WINDOW, step=16)


def test_blocks_one_after_another_leave_no_trace(context, truth):
    advance(context, RING - BEFORE)
    for round_number in range(32):
        reject(context, 8, kept=round_number % 5)
        check_rows(context, truth, 1 + round_number % 3, step=8)
    assert context.length_tokens() > RING + WINDOW
    check_rows(context, truth, 8, step=1)


def test_a_cleared_sequence_begins_anew(context, truth):
    """Cells that a rejected block has emptied are no place to begin."""
    advance(context, RING - 2)
    reject(context, 32, kept=1)
    context.clear()
    advance(context, RING - 8)
    check_rows(context, truth, WINDOW + 16, step=4)


@pytest.mark.parametrize("length", [RING - BEFORE, RING - 1, RING, RING + 1, RING + WINDOW, 2 * RING - 3])
def test_restored_rows_lie_where_they_lay(context, truth, length):
    """A checkpoint holds the rows of the window, in the order of their cells."""
    advance(context, length)
    checkpoint = context.checkpoint()
    for wrong in (1, 8, 32, 3 * WINDOW):
        for start in range(0, wrong, 32):
            evaluate(context, [WRONG] * min(32, wrong - start))
        context.restore(checkpoint)
        check_rows(context, truth, WINDOW + 8, step=8)
        context.restore(checkpoint)


def stop(context, rows, nodes, seq_id):
    """Abort an evaluation somewhere, or not, and go back to before it."""
    checkpoint = context.checkpoint(seq_id)
    context.abort_after(nodes)
    try:
        evaluate(context, [WRONG] * rows, seq_id)
    except Cancelled:
        pass
    finally:
        context.abort_after(-1)
    context.restore(checkpoint)


@settings(max_examples=25)
@given(
    starts=st.tuples(*[st.integers(RING - BEFORE, RING + 4)] * 2),
    history=st.lists(
        st.tuples(
            st.sampled_from(["advance", "reject", "restore", "abort"]),
            st.integers(0, 1),
            st.integers(1, 32),
            st.integers(1, 8),
        ),
        max_size=8,
    ),
)
def test_any_history_of_two_sequences_leaves_no_trace(near_end, truth, starts, history):
    context, bring_back = near_end
    for seq_id, start in enumerate(starts):
        bring_back(seq_id)
        advance(context, start, seq_id)
    for action, seq_id, rows, count in history:
        if action == "advance":
            check_rows(context, truth, count, 1 + rows % 8, seq_id)
        elif action == "reject":
            reject(context, rows, min(count, rows), seq_id)
        elif action == "restore":
            checkpoint = context.checkpoint(seq_id)
            evaluate(context, [WRONG] * rows, seq_id)
            context.restore(checkpoint)
        else:
            stop(context, rows, count * 10, seq_id)
    for seq_id in (0, 1):
        check_rows(context, truth, WINDOW, step=16, seq_id=seq_id)
    context.check_integrity().raise_if_broken()
