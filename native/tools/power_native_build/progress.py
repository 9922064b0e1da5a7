"""One visible line while a build runs: pip and uv hide what a build prints, the terminal does not."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TextIO

TERMINAL_INTERVAL_S = 0.5
STDERR_INTERVAL_S = 10.0

# pip and uv redraw their own lines and know nothing of ours, so it stands on the line below the cursor: make room there
# (index, cursor up), save the cursor, write, restore it.
BELOW = "\033D\033[A\0337\033[B\r\033[K{}\0338"


class Progress:
    """Keeps one line with the current step and the seconds so far. A terminal that fails never fails the build.

    The line is redrawn below the cursor of the controlling terminal; without a terminal it is written to stderr every
    ten seconds. Nothing is shown outside the `with` block.
    """

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._text = "starting"
        self._terminal: TextIO | None = None
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        with contextlib.suppress(OSError):
            self._terminal = Path("/dev/tty").open("w", encoding="utf-8")
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._ticker.join()
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                self._write_below("")
            with contextlib.suppress(OSError):
                self._terminal.close()
            self._terminal = None

    def step(self, text: str) -> None:
        """Say what goes on from now on; may be called as often as one likes."""
        self._text = text

    def _tick(self) -> None:
        while not self._stop.wait(STDERR_INTERVAL_S if self._terminal is None else TERMINAL_INTERVAL_S):
            with contextlib.suppress(OSError):
                self._show(f"power-native: {self._text} {time.monotonic() - self._started_s:.0f} s")

    def _show(self, line: str) -> None:
        if self._terminal is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._write_below(line)

    def _write_below(self, line: str) -> None:
        if self._terminal is not None:
            width = os.get_terminal_size(self._terminal.fileno()).columns
            self._terminal.write(BELOW.format(line[: max(width - 1, 0)]))
            self._terminal.flush()
