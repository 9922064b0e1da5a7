"""The row buffer describes every evaluation as if it were its first."""

import ctypes

from hypothesis import given
from hypothesis import strategies as st

from power_core.tokens import SequenceRows
from power_native._rows import RowBuffer

CAPACITY, CTX = 12, 40

RUNS = st.lists(
    st.builds(
        SequenceRows,
        seq_id=st.integers(0, 2),
        start_pos=st.integers(0, CTX - 4),
        tokens=st.lists(st.integers(0, 99), min_size=1, max_size=4),
        logits=st.sampled_from(["all", "last", "none"]),
    ),
    min_size=1,
    max_size=3,
)


def described(buffer, n_rows):
    raw = buffer.raw
    assert raw.n_rows == n_rows
    fields = (raw.tokens, raw.positions, raw.seq_ids, raw.wants_logits)
    assert ctypes.sizeof(raw) == raw.size
    return [list(field[:n_rows]) for field in fields]


def expected(sequences):
    rows = [
        (token, run.start_pos + at, run.seq_id, int(run.logits == "all" or (run.logits == "last" and token_is_last)))
        for run in sequences
        for at, (token, token_is_last) in enumerate(
            (token, index == len(run.tokens) - 1) for index, token in enumerate(run.tokens)
        )
    ]
    return [list(column) for column in zip(*rows, strict=True)]


@given(st.lists(RUNS, min_size=1, max_size=6))
def test_what_was_described_before_leaves_no_trace(evaluations):
    buffer = RowBuffer(capacity_rows=CAPACITY, ctx_tokens=CTX)
    for sequences in evaluations:
        n_rows = buffer.fill(sequences)
        assert described(buffer, n_rows) == expected(sequences)
