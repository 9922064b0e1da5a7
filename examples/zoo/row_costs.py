"""What one target evaluation costs by its rows: the curve that decides which drafts can pay."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path

from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows, TokenId
from power_native import NativeModel

MOST_ROWS = 16
PROMPT_TOKENS = 200


def row_costs_ms(target: Path, tokens: list[TokenId], *, threads: int, samples: int = 60) -> dict[int, float]:
    """Return the median milliseconds of evaluations of 1, 2, ... 16 rows, as verification does them.

    Args:
        target: The target's file.
        tokens: At least ``PROMPT_TOKENS`` tokens; they are repeated as often as needed.
        threads: Compute threads, 0 for one per core.
        samples: Evaluations per number of rows; the numbers take turns, so that all see the same machine.
    """
    settings = ContextSettings(ctx_tokens=4096, batch_rows=64, snapshots=MOST_ROWS, threads=threads)
    times: dict[int, list[float]] = {rows: [] for rows in range(1, MOST_ROWS + 1)}
    with (
        closing(NativeModel.open(ModelSettings(path=target))) as model,
        closing(model.open_context(settings)) as context,
    ):
        for at in range(0, PROMPT_TOKENS, 50):
            context.evaluate((SequenceRows(start_pos=at, tokens=tokens[at : at + 50]),), kernels="decode")
        position = PROMPT_TOKENS
        for _ in range(samples):
            for rows, taken in times.items():
                block = [tokens[(position + row) % len(tokens)] for row in range(rows)]
                began = time.perf_counter()
                context.evaluate((SequenceRows(start_pos=position, tokens=block),), kernels="decode")
                taken.append(1e3 * (time.perf_counter() - began))
                position += 1
                context.truncate(position)
    return {rows: statistics.median(taken) for rows, taken in times.items()}
