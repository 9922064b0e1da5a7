"""Incremental text of a token stream: whole characters only, stop strings withheld."""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Sequence

from power_core.stops import StopTracker
from power_core.target import Vocabulary
from power_core.tokens import TokenId


class TextStream:
    """Turns emitted tokens into text pieces that never end inside a UTF-8 character.

    Attributes:
        stopped: True once a stop string is complete.
    """

    def __init__(self, vocabulary: Vocabulary, stops: Sequence[str]) -> None:
        self._vocabulary = vocabulary
        self._tracker = StopTracker(stops)
        self._begun_character = b""
        self._pieces: list[str] = []
        self.stopped = False

    @property
    def text(self) -> str:
        """All text shown so far."""
        return "".join(self._pieces)

    def push(self, token: TokenId) -> str:
        """Take an emitted token; return the text that became certain."""
        data, tracker = self._vocabulary.token_bytes(token), self._tracker
        if tracker.stops:
            data = tracker.push(data)
            self.stopped = tracker.hit
        return self._show(data, final=self.stopped)

    def finish(self) -> str:
        """Return the rest; bytes that never became a character are shown as U+FFFD."""
        return self._show(self._tracker.finish(), final=True)

    def preview(self) -> StopPreview | None:
        """Return a look-ahead for the tokens of one round, or None when there are no stop strings."""
        return StopPreview(self._vocabulary, self._tracker.copy()) if self._tracker else None

    def _show(self, data: bytes, *, final: bool) -> str:
        data = self._begun_character + data
        piece, decoded_bytes = utf_8_decode(data, "replace", final)
        self._begun_character = data[decoded_bytes:]
        if piece:
            self._pieces.append(piece)
        return piece


class StopPreview:
    """Answers whether accepted drafts complete a stop string, without moving the stream itself."""

    def __init__(self, vocabulary: Vocabulary, tracker: StopTracker) -> None:
        self._vocabulary = vocabulary
        self._tracker = tracker

    def completes(self, token: TokenId) -> bool:
        """Take the next accepted token; True when a stop string is complete."""
        self._tracker.push(self._vocabulary.token_bytes(token))
        return self._tracker.hit
