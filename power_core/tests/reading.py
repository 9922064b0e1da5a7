"""Counts the bytes that are read from files, so that a test can bound them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class CountedFile(io.FileIO):
    """A file that adds to ``CountedFile.read_bytes`` what is read from it."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        assert content is not None
        CountedFile.read_bytes += len(content)
        return content

    @staticmethod
    @contextmanager
    def in_place_of_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Let ``Path.open`` return such files for reading bytes."""
        opened = Path.open

        def open_counted(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            return CountedFile(path) if mode == "rb" else opened(path, mode, *arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", open_counted)
            yield
