"""Progress bars on standard error while a model is loaded, a prompt is read, tokens are decoded or a file is hashed."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from power_core.cli.console import err_is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PHASES = {
    "load": "Loading the model",
    "probe": "Measuring",
    "prefill": "Reading the prompt",
    "decode": "Generating",
    "warm-up": "Warming up",
    "bench": "Running the pairs",
    "hash": "Hashing the file",
    "hash draft": "Hashing the draft",
    "hash target": "Hashing the target",
}


class ProgressView:
    """One bar per phase. Shows nothing when standard error is no terminal, and leaves nothing behind when it stops.

    Args:
        live: Move by itself between updates, from a thread of its own; what is measured does without.
    """

    def __init__(self, *, live: bool = True) -> None:
        self._live = live
        self._enabled = err_is_terminal()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def update(self, phase: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` units of a phase are finished; a total of 0 is unknown."""
        if not self._enabled:
            return
        if self._bars is None:
            self._bars = _new_bars(live=self._live)
            self._bars.start()
        if phase not in self._tasks:
            self._tasks[phase] = self._bars.add_task(PHASES.get(phase, phase), total=total or None)
        self._bars.update(self._tasks[phase], completed=done, total=total or None, refresh=not self._live)

    def stop(self) -> None:
        """Remove the bars for good, before anything else is written to the terminal."""
        self._enabled = False
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _new_bars(*, live: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=live)
