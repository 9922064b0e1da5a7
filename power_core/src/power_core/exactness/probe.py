"""Measure how many rows a context can evaluate at once with the bits that single rows have.

The reference is always single-row decoding in the same process on the same context from the same state. Whatever the
kernels are, equality of all logits on arbitrary tokens is what a claim may rest on; a version number is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.exactness.zones import zone_of
from power_core.target import TargetContext
from power_core.tokens import SeqId, SequenceRows, TokenId

_SMALLEST = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)


@attrs.frozen(kw_only=True, order=True)
class ProbeCell:
    """One comparison.

    Attributes:
        depth_tokens: Positions before the rows.
        rows: Rows evaluated at once; 1 is a single row evaluated again, which differs when the backend does not repeat
            itself.
        difference: Largest absolute difference of a logit from single rows; 0 if and only if every bit is equal.
    """

    depth_tokens: int
    rows: int
    difference: float


@attrs.frozen(kw_only=True)
class ProbeTable:
    """All comparisons made so far, at most one per depth and row count."""

    cells: tuple[ProbeCell, ...] = ()

    def with_cells(self, cells: Iterable[ProbeCell]) -> ProbeTable:
        """Return the table with further cells; a new cell replaces the one at its place."""
        merged = {(cell.depth_tokens, cell.rows): cell for cell in (*self.cells, *cells)}
        return ProbeTable(cells=tuple(sorted(merged.values())))

    def in_zone(self, zone: int, rows: int) -> ProbeTable:
        """Return what stands for slices of up to ``rows`` rows in a zone of ``zones.zone_of``."""
        return ProbeTable(
            cells=tuple(cell for cell in self.cells if cell.rows <= rows and zone_of(cell.depth_tokens, rows) == zone)
        )

    def missing_rows(self, rows: int) -> tuple[int, ...]:
        """Return the row counts 1..``rows`` that no cell compares."""
        measured = {cell.rows for cell in self.cells}
        return tuple(width for width in range(1, rows + 1) if width not in measured)

    @property
    def widest_rows(self) -> int:
        """W: slices of 1..W rows were all measured and equal single rows in every bit; 0 when nothing repeats."""
        measured = {cell.rows for cell in self.cells}
        unequal = {cell.rows for cell in self.cells if cell.difference != 0.0}
        width = 0
        while width + 1 in measured and width + 1 not in unequal:
            width += 1
        return width

    @property
    def largest_difference(self) -> float:
        """Largest difference of all cells."""
        return max((cell.difference for cell in self.cells), default=0.0)

    @property
    def depths_tokens(self) -> tuple[int, ...]:
        """Depths that were measured, ascending."""
        return tuple(sorted({cell.depth_tokens for cell in self.cells}))


def measure_rows(
    context: TargetContext,
    tokens: Sequence[TokenId],
    widths: Sequence[int],
    *,
    lead_tokens: int = 0,
    seq_id: SeqId = 0,
) -> tuple[ProbeCell, ...]:
    """Compare slices of every width with single rows, after the positions that the sequence holds, and return there.

    Args:
        context: Its sequence is as it was when this returns; after an exception it may hold anything.
        tokens: What is evaluated, at least ``lead_tokens`` and the largest width; any tokens will do.
        widths: Row counts to compare, at most as many as the context can hand out logits for.
        lead_tokens: Tokens to go forward by single rows before the comparison.
        seq_id: The sequence; it has room for all of that.

    Returns:
        One cell per width.
    """
    here = _Place(context, seq_id)
    here.evaluate(tokens, [1] * lead_tokens)
    start = _Place(context, seq_id) if lead_tokens else here
    tokens = tokens[lead_tokens:]
    single = start.evaluate(tokens, [1] * max(widths))
    cells = []
    for width in widths:
        start.go_back()
        difference = largest_difference(single[:width], start.evaluate(tokens, [width]))
        cells.append(ProbeCell(depth_tokens=start.length_tokens, rows=width, difference=difference))
    here.go_back()
    return tuple(cells)


def probe_tokens(n_tokens: int, n_vocab: int) -> list[TokenId]:
    """Return tokens to evaluate where there is no text yet; always the same ones."""
    return [7919 * (index + 1) % n_vocab for index in range(n_tokens)]


def largest_difference(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the largest absolute difference of two arrays, 0 if and only if every bit is equal; always finite."""
    unequal = one.view(np.uint32) != other.view(np.uint32)
    if not unequal.any():
        return 0.0
    with np.errstate(invalid="ignore"):
        differences = np.abs(one[unequal].astype(np.float64) - other[unequal])
    largest = float(np.nan_to_num(differences, nan=_LARGEST).max())
    return min(max(largest, _SMALLEST), _LARGEST)


class _Place:
    """A state of a sequence that evaluations start from and go back to."""

    def __init__(self, context: TargetContext, seq_id: SeqId) -> None:
        self._context = context
        self._seq_id = seq_id
        self._mark = context.checkpoint(seq_id)
        self.length_tokens = context.length_tokens(seq_id)

    def evaluate(self, tokens: Sequence[TokenId], widths: Sequence[int]) -> NDArray[np.float32]:
        """Evaluate slices one after the other; return the logits of all rows, float32[sum(widths), n_vocab]."""
        logits: list[NDArray[np.float32]] = []
        for width in widths:
            piece = tokens[len(logits) : len(logits) + width]
            rows = SequenceRows(seq_id=self._seq_id, start_pos=self.length_tokens + len(logits), tokens=piece)
            self._context.evaluate((rows,), kernels="decode")
            logits += [self._context.logits(row).copy() for row in range(width)]
        return np.array(logits)

    def go_back(self) -> None:
        """A whole evaluation cannot always be truncated: of recurrent state, its first row has to stay."""
        if self._context.can_truncate(self.length_tokens, self._seq_id):
            self._context.truncate(self.length_tokens, self._seq_id)
        else:
            self._context.restore(self._mark)
