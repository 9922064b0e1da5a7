"""Measures before anything is claimed: holds the table of a session, and what the request at hand may claim.

When a session opens, the probe measures a short context. When a block of a request may first reach into a deeper zone,
it measures there, on the request's own state, before the round. So no text is evaluated for the probe's sake, and a
claim covers the zones that the request went through.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from power_core.exactness.cache import ProbeCache
from power_core.exactness.margin_guard import NOISE_MULTIPLE
from power_core.exactness.probe import ProbeCell, ProbeTable, measure_rows, probe_tokens
from power_core.exactness.stance import Stance, take_stance
from power_core.exactness.zones import EDGE_ZONE, SHORT_ZONE, zone_end, zone_of
from power_core.report import ProbeRecord, Report
from power_core.sequence import TargetSequence
from power_core.settings import SessionArithmetic
from power_core.target import TargetContext
from power_core.tokens import SequenceRows, TokenId

SHORT_TOKENS = 64
"""Text in front of the measurement at the start: noise grows with the context, and much less of it shows none."""


class Guarantor:
    """Decides slice width, guard and claim of a session from measurements.

    Args:
        context: The target's.
        arithmetic: The session's.
        slice_rows: Rows per slice that were planned; the measured widths are 1 to this one.
        block_rows: Most rows of a block; a slice may begin at each of them.
        n_vocab: Size of the vocabulary.
        cache: Where measurements are kept.

    Attributes:
        guard_threshold: Margin below which a greedy choice is decided again; None without a guard.
        probe_ns: What measuring took when the session was opened.
    """

    def __init__(
        self,
        *,
        context: TargetContext,
        arithmetic: SessionArithmetic,
        slice_rows: int,
        block_rows: int,
        n_vocab: int,
        cache: ProbeCache,
    ) -> None:
        self._context = context
        self._arithmetic = arithmetic
        self._planned_rows = slice_rows
        self._block_rows = block_rows
        self._n_vocab = n_vocab
        self._cache = cache
        self._table = cache.load()
        self._zones: set[int] = {SHORT_ZONE}
        self._covered_tokens = 0
        self._greedy = True
        self._stance: Stance | None = None
        self.guard_threshold: float | None = None
        self.probe_ns = 0

    @property
    def stance(self) -> Stance:
        """The stance of the request at hand."""
        assert self._stance is not None, "open"
        return self._stance

    def open(self, events: list[dict[str, Any]]) -> Stance:
        """Measure a short context unless the cache has it; the context is empty before and afterwards."""
        started_ns = time.perf_counter_ns()
        depth_tokens = min(SHORT_TOKENS, self._context.ctx_tokens - self._planned_rows)
        missing = self._table.in_zone(SHORT_ZONE, self._planned_rows).missing_rows(self._planned_rows)
        if missing:
            tokens = probe_tokens(depth_tokens + self._planned_rows, self._n_vocab)
            fill_context(self._context, tokens[:depth_tokens])
            events += self._keep(measure_rows(self._context, tokens[depth_tokens:], missing))
            self._context.clear()
        self.probe_ns = time.perf_counter_ns() - started_ns
        self._decide()
        if self.stance.slice_rows < self._planned_rows or self._arithmetic != "exact":
            events.append({"event": "probe", "round": 0, **self._facts()})
        return self.stance

    def begin(self, *, greedy: bool) -> Stance:
        """Start a request on a new text; one that continues the last text goes on with what that one measured."""
        self._zones = {SHORT_ZONE}
        self._covered_tokens = 0
        self._greedy = greedy
        self._decide()
        return self.stance

    def record(self) -> ProbeRecord:
        """Return what the claim of the request at hand rests on."""
        used = self._used()
        return ProbeRecord(
            widest_rows=self._widest_rows(),
            depths_tokens=used.depths_tokens,
            largest_difference=used.largest_difference,
        )

    def cover(self, sequence: TargetSequence, report: Report) -> None:
        """Before a round: measure the zones that its slices may enter and were not measured; adapt the request to them.

        The sequence is ready, and is so afterwards. After an exception it is not clean, and is rebuilt before its next
        round if need be.
        """
        first = len(sequence.history) - 1
        if first + self._block_rows <= self._covered_tokens:
            return
        end = min(first + self._block_rows, self._context.ctx_tokens)
        while max(first, self._covered_tokens) < end:
            depth_tokens = max(first, self._covered_tokens)
            if zone_of(depth_tokens, self._planned_rows) not in self._zones:
                self._enter(depth_tokens, sequence, report)
            self._covered_tokens = zone_end(depth_tokens, self._planned_rows)

    def _enter(self, depth_tokens: int, sequence: TargetSequence, report: Report) -> None:
        """Measure the zone of a depth, unless the context has no room for two rows there."""
        zone = zone_of(depth_tokens, self._planned_rows)
        at_tokens = max(depth_tokens, EDGE_ZONE) if zone == EDGE_ZONE else depth_tokens
        rows = min(self._planned_rows, self._context.ctx_tokens - at_tokens)
        if rows < 2:
            return
        started_ns = time.perf_counter_ns()
        missing = self._table.in_zone(zone, self._planned_rows).missing_rows(rows)
        if missing:
            lead_tokens = at_tokens - sequence.committed_tokens
            sequence.clean = False
            tokens = _tokens_of(sequence.history, lead_tokens + rows)
            cells = measure_rows(self._context, tokens, missing, lead_tokens=lead_tokens, seq_id=sequence.seq_id)
            sequence.clean = True
            report.events += self._keep(cells, report.rounds)
        self._zones.add(zone)
        self._adapt(sequence, report)
        report.timings_ns.probe += time.perf_counter_ns() - started_ns

    def _adapt(self, sequence: TargetSequence, report: Report) -> None:
        before = self._stance
        self._decide()
        sequence.slice_rows = self.stance.slice_rows
        report.guarantee = self.stance.guarantee
        report.probe = self.record()
        if self._stance != before:
            report.add_event("probe", **self._facts())

    def _decide(self) -> None:
        self._stance = stance = take_stance(
            self._arithmetic,
            greedy=self._greedy,
            slice_rows=self._planned_rows,
            widest_rows=self._widest_rows(),
        )
        self.guard_threshold = NOISE_MULTIPLE * self._used().largest_difference if stance.guarded else None

    def _widest_rows(self) -> int:
        return min(self._table.in_zone(zone, self._planned_rows).widest_rows for zone in self._zones)

    def _used(self) -> ProbeTable:
        zones = (self._table.in_zone(zone, self._planned_rows) for zone in self._zones)
        return ProbeTable().with_cells(cell for zone in zones for cell in zone.cells)

    def _facts(self) -> dict[str, Any]:
        used = self._used()
        return {
            "guarantee": self.stance.guarantee,
            "widest_rows": self._widest_rows(),
            "largest_difference": used.largest_difference,
            "depths_tokens": list(used.depths_tokens),
        }

    def _keep(self, cells: Sequence[ProbeCell], at_round: int = 0) -> list[dict[str, Any]]:
        self._table = self._table.with_cells(cells)
        refused = self._cache.store(self._table)
        return [{"event": "probe_not_kept", "round": at_round, "detail": refused}] if refused else []


def fill_context(context: TargetContext, tokens: Sequence[TokenId]) -> None:
    """Evaluate tokens as a prompt is: in chunks, with prefill kernels, after what the context holds."""
    for at in range(0, len(tokens), context.ubatch_rows):
        chunk = tokens[at : at + context.ubatch_rows]
        rows = SequenceRows(start_pos=context.length_tokens(), tokens=chunk, logits="none")
        context.evaluate((rows,), kernels="prefill")


def _tokens_of(history: Sequence[TokenId], n_tokens: int) -> list[TokenId]:
    """Return tokens of the text at hand, as many as asked for; the anchor is the first."""
    return [history[-1 - index % len(history)] for index in range(n_tokens)]
