"""What one target evaluation costs by its rows: the curve that decides which drafts can pay."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path

from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows, TokenId
from power_native import NativeContext, NativeModel

MOST_ROWS = 16
PROMPT_TOKENS = 200
GRAPH_SAMPLES = 2
SAMPLES = 12


def row_costs_ms(target: Path, tokens: list[TokenId], *, threads: int) -> dict[int, float]:
    """Return the median milliseconds of evaluations of 1, 2, ... 16 rows, as verification does them.

    Evaluations of one number of rows follow each other, as in a request: the library then keeps its graph. The numbers
    run up and down again, so that each sees the same lengths of context on average.

    Args:
        target: The target's file.
        tokens: At least ``PROMPT_TOKENS`` tokens; they are repeated as often as needed.
        threads: Compute threads.
    """
    settings = ContextSettings(ctx_tokens=2048, batch_rows=64, snapshots=MOST_ROWS, threads=threads)
    times: dict[int, list[float]] = {rows: [] for rows in range(1, MOST_ROWS + 1)}
    with (
        closing(NativeModel.open(ModelSettings(path=target))) as model,
        closing(model.open_context(settings)) as context,
    ):
        for at in range(0, PROMPT_TOKENS, 50):
            context.evaluate((SequenceRows(start_pos=at, tokens=tokens[at : at + 50]),), kernels="decode")
        for rows in (*times, *reversed(times)):
            times[rows] += [_evaluate(context, tokens, rows) for _ in range(GRAPH_SAMPLES + SAMPLES)][GRAPH_SAMPLES:]
    return {rows: statistics.median(taken) for rows, taken in times.items()}


def _evaluate(context: NativeContext, tokens: list[TokenId], rows: int) -> float:
    """Evaluate a block after what is there, keep its first row, return the milliseconds it took."""
    position = context.length_tokens()
    block = [tokens[(position + row) % len(tokens)] for row in range(rows)]
    began = time.perf_counter()
    context.evaluate((SequenceRows(start_pos=position, tokens=block),), kernels="decode")
    taken = 1e3 * (time.perf_counter() - began)
    context.truncate(position + 1)
    return taken
