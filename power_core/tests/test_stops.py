"""StopTracker: found wherever it ends, never half shown, bounded, previewed without moving."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from power_core.stops import StopTracker

STOPS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3)
PIECES = st.lists(st.binary(max_size=3).map(lambda data: bytes(b"ab"[byte % 2] for byte in data)), max_size=20)


@given(STOPS, PIECES)
def test_shown_bytes_end_exactly_before_the_earliest_stop(stops, pieces):
    tracker = StopTracker(stops)
    shown, seen = b"", b""
    for piece in pieces:
        shown += tracker.push(piece)
        seen += piece
        hits = [at for at in (seen.find(stop.encode()) for stop in stops) if at >= 0]
        assert tracker.hit == bool(hits)
        if hits:
            assert shown == seen[: min(hits)]
            return
        assert seen.startswith(shown)
        assert len(seen) - len(shown) < max(len(stop) for stop in stops)
    assert shown + tracker.finish() == seen


def test_a_stop_split_inside_a_character_is_found():
    tracker = StopTracker(["né"])
    assert tracker.push(b"bon n\xc3") == b"bon "
    assert tracker.push(b"\xa9 gone") == b""
    assert tracker.hit


def test_a_stop_in_the_middle_of_a_piece_is_found():
    tracker = StopTracker(["```"])
    assert tracker.push(b"done```and more") == b"done"
    assert tracker.hit


def test_without_stops_nothing_is_held_back():
    tracker = StopTracker()
    assert tracker.push(b"x" * 1000) == b"x" * 1000
    assert tracker.finish() == b""


def test_a_copy_does_not_move_the_original():
    tracker = StopTracker(["END"])
    tracker.push(b"E")
    preview = tracker.copy()
    preview.push(b"ND")
    assert preview.hit
    assert not tracker.hit
    assert tracker.push(b"nough") == b"Enough"
