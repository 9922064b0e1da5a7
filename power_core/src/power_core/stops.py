"""Stop strings over a stream of token bytes: found wherever they end, never half shown."""

from __future__ import annotations

from collections.abc import Sequence


class StopTracker:
    """Holds back bytes that may still become a stop string.

    A stop string may begin and end inside tokens, across rounds, and inside a multi-byte character. At most the longest
    stop string's length less one is held back, and nothing when there are no stop strings.

    Attributes:
        stops: The stop strings.
        hit: True once one is complete.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.stops = tuple(stop.encode() for stop in stops)
        self._held = b""
        self.hit = False

    def __bool__(self) -> bool:
        return bool(self.stops)

    def copy(self) -> StopTracker:
        """Return an independent tracker in the same state, for a preview."""
        twin = StopTracker()
        twin.stops, twin._held, twin.hit = self.stops, self._held, self.hit
        return twin

    def push(self, piece: bytes) -> bytes:
        """Take a token's bytes; return those that are free to show. Sets ``hit`` when a stop string is complete.

        After a hit the bytes before the earliest stop string are returned and everything from it on is dropped.
        """
        if not self.stops:
            return piece
        seen = self._held + piece
        found = [at for at in (seen.find(stop) for stop in self.stops) if at >= 0]
        if found:
            self.hit = True
            self._held = b""
            return seen[: min(found)]
        held = self._possible_start(seen)
        self._held = seen[len(seen) - held :]
        return seen[: len(seen) - held]

    def finish(self) -> bytes:
        """Return what was held back; the stream ends without a stop string."""
        held, self._held = self._held, b""
        return held

    def _possible_start(self, seen: bytes) -> int:
        longest = 0
        for stop in self.stops:
            for length in range(min(len(stop) - 1, len(seen)), longest, -1):
                if seen.endswith(stop[:length]):
                    longest = length
                    break
        return longest
