"""The table of ``power doctor``: row counts by depth, on a context that is opened for nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from power_core.exactness.cache import ProbeCache
from power_core.exactness.guarantor import SHORT_TOKENS, fill_context
from power_core.exactness.probe import ProbeTable, measure_rows, probe_tokens
from power_core.exactness.zones import STEP_TOKENS
from power_core.target import TargetContext

DEPTHS_TOKENS = (8, SHORT_TOKENS, STEP_TOKENS - 1, STEP_TOKENS + 44, 2 * STEP_TOKENS + 8)
"""Very short; where sessions start; just before a step of the length; a few hundred; past a flash-attention block."""


@attrs.frozen(kw_only=True)
class Survey:
    """A table over row counts and depths.

    Attributes:
        table: Every cell of ``depths_tokens`` x 1..``rows``.
        depths_tokens: Depths, ascending; the last is near the context's end.
        rows: Largest row count.
        seconds: What measuring took; almost nothing when the cache had it.
        not_kept: Why the cache could not be written, None when it was.
    """

    table: ProbeTable
    depths_tokens: tuple[int, ...]
    rows: int
    seconds: float
    not_kept: str | None = None

    @property
    def widest_rows(self) -> int:
        """W over all depths."""
        return min(self.at_depth(depth).widest_rows for depth in self.depths_tokens)

    @property
    def largest_difference(self) -> float:
        """Largest difference over all depths and row counts of the table; what else the cache holds is left out."""
        return max(self.at_depth(depth).largest_difference for depth in self.depths_tokens)

    def at_depth(self, depth_tokens: int) -> ProbeTable:
        """Return the cells of one depth."""
        return ProbeTable(
            cells=tuple(
                cell for cell in self.table.cells if cell.depth_tokens == depth_tokens and cell.rows <= self.rows
            )
        )


def survey_context(
    context: TargetContext,
    *,
    rows: int,
    n_vocab: int,
    cache: ProbeCache,
    on_depth: Callable[[int, int], None] | None = None,
) -> Survey:
    """Measure what the cache does not have; the context is empty before and afterwards.

    Args:
        context: Hands out logits for ``rows`` rows.
        rows: Largest row count to compare.
        n_vocab: Size of the vocabulary.
        cache: Where the measurements go.
        on_depth: Called with (depth, deepest) in tokens before a depth is measured.
    """
    started_ns = time.perf_counter_ns()
    depths = _depths(context.ctx_tokens, rows)
    survey = Survey(table=cache.load(), depths_tokens=depths, rows=rows, seconds=0.0)
    tokens = probe_tokens(depths[-1] + rows, n_vocab)
    not_kept = None
    for depth in depths:
        missing = survey.at_depth(depth).missing_rows(rows)
        if not missing:
            continue
        if on_depth is not None:
            on_depth(depth, depths[-1])
        fill_context(context, tokens[context.length_tokens() : depth])
        cells = measure_rows(context, tokens[depth:], missing)
        survey = attrs.evolve(survey, table=survey.table.with_cells(cells))
        not_kept = cache.store(survey.table)
    context.clear()
    return attrs.evolve(survey, seconds=(time.perf_counter_ns() - started_ns) / 1e9, not_kept=not_kept)


def _depths(ctx_tokens: int, rows: int) -> tuple[int, ...]:
    """Return the depths that fit, and the one beyond which ``rows`` rows do not."""
    deepest = ctx_tokens - rows
    return (*(depth for depth in DEPTHS_TOKENS if depth < deepest), deepest)
