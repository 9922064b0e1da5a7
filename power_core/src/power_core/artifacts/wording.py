"""Messages about files stay short, whatever the files hold."""

from __future__ import annotations

MAX_CHARS = 1000


def shorten(words: object) -> str:
    """Return the words, cut to ``MAX_CHARS`` characters: a file's own text may be a megabyte long."""
    text = str(words)
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 3]}..."
