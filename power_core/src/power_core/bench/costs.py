"""What one evaluation of the target costs by its rows: the curve that decides which drafts can pay."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

from power_core.bench.records import RowCost, RowCosts
from power_core.session import Session
from power_core.tokens import SequenceRows, TokenId

SAMPLES = 30
WARMUPS = 3


def measure_row_costs(
    session: Session,
    variant: str,
    tokens: Sequence[TokenId],
    *,
    samples: int = SAMPLES,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> RowCosts:
    """Time evaluations of 1, 2, ... rows, up to a whole slice of the session, as verification does them.

    The numbers of rows take turns, so that all see the same machine. One row stays behind after each, the others are
    taken back. The session's memory is overwritten; its next request starts anew, as each does.

    Args:
        session: An open session without a running request.
        variant: Its name in the report.
        tokens: The context, evaluated first; fewer than the session's context by at least a slice.
        samples: Evaluations per number of rows that are kept.
        clock: Returns nanoseconds.
    """
    times: dict[int, list[int]] = {rows: [] for rows in range(1, session.plan.slice_rows + 1)}
    for turn in range(WARMUPS + samples):
        for rows, taken in times.items():
            _make_room(session, tokens)
            elapsed_ns = _time_block(session, [tokens[-1]] * rows, clock)
            if turn >= WARMUPS:
                taken.append(elapsed_ns)
    session.context.clear()
    costs = tuple(
        RowCost(rows=rows, median_ns=round(median(taken)), samples_ns=tuple(taken)) for rows, taken in times.items()
    )
    return RowCosts(variant=variant, context_tokens=len(tokens), costs=costs)


def _make_room(session: Session, tokens: Sequence[TokenId]) -> None:
    """Evaluate the context's tokens anew when there is nothing, or no room for another slice behind them."""
    context = session.context
    length = context.length_tokens()
    if len(tokens) <= length <= context.ctx_tokens - session.plan.slice_rows:
        return
    context.clear()
    for at in range(0, len(tokens), context.ubatch_rows):
        piece = SequenceRows(start_pos=at, tokens=tokens[at : at + context.ubatch_rows], logits="last")
        context.evaluate((piece,), kernels="prefill")


def _time_block(session: Session, block: Sequence[TokenId], clock: Callable[[], int]) -> int:
    context = session.context
    length = context.length_tokens()
    started_ns = clock()
    context.evaluate((SequenceRows(start_pos=length, tokens=block),), kernels="decode")
    context.argmax(len(block) - 1)
    elapsed_ns = clock() - started_ns
    if context.can_truncate(length + 1):
        context.truncate(length + 1)
    else:
        context.clear()
    return elapsed_ns
