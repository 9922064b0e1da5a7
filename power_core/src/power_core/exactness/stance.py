"""What a session does, and what it may claim, for what was measured. One pure rule; nothing is claimed unmeasured."""

from __future__ import annotations

import attrs

from power_core.settings import SessionArithmetic

MARGIN_GUARDED = "margin-guarded"
TARGET_AUTHORITATIVE = "target-authoritative"


@attrs.frozen(kw_only=True)
class Stance:
    """How slices are evaluated from here on.

    Attributes:
        slice_rows: Rows per slice.
        guarded: Near-ties are decided again by single rows.
        guarantee: See ``Report.guarantee``.
    """

    slice_rows: int
    guarded: bool
    guarantee: str


def bit_identical(rows: int) -> str:
    """Return the words for slices that equal single rows up to a width; 1 is plain decoding itself."""
    return f"bit-identical({rows})"


def take_stance(arithmetic: SessionArithmetic, *, greedy: bool, slice_rows: int, widest_rows: int) -> Stance:
    """Return the stance of a session.

    ``exact`` narrows its slices to what was measured; where only single rows are left it guards greedy choices, and
    draws others from single rows. ``guarded`` keeps its width and guards greedy choices unless the width was measured
    to be exact. ``fast`` claims nothing. The guard knows margins between two logits, so it covers greedy choices only.

    Args:
        arithmetic: The session's.
        greedy: The request takes the largest logit and keeps no sampler state.
        slice_rows: Rows per slice that were planned.
        widest_rows: W of everything measured for the depths in use.
    """
    unclaimed = Stance(slice_rows=slice_rows, guarded=False, guarantee=TARGET_AUTHORITATIVE)
    if arithmetic == "fast":
        return unclaimed
    exact_rows = min(slice_rows, widest_rows)
    narrow = arithmetic == "exact" and (exact_rows > 1 or (exact_rows == 1 and not greedy))
    if exact_rows == slice_rows or narrow:
        return Stance(slice_rows=exact_rows, guarded=False, guarantee=bit_identical(exact_rows))
    return Stance(slice_rows=slice_rows, guarded=True, guarantee=MARGIN_GUARDED) if greedy else unclaimed
