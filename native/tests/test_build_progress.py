"""The progress line never decides about the build."""

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from power_native_build import progress


class BrokenTerminal:
    """A terminal that was hung up: it can be opened and nothing else."""

    def __init__(self):
        self.used = threading.Event()

    def fileno(self):
        self.used.set()
        raise OSError(5, "Input/output error")

    def close(self):
        raise OSError(5, "Input/output error")


def test_a_terminal_that_fails_does_not_fail_a_finished_build(monkeypatch):
    terminal, raised = BrokenTerminal(), []
    monkeypatch.setattr(progress.Path, "open", lambda *arguments, **options: terminal)
    monkeypatch.setattr(progress, "TERMINAL_INTERVAL_S", 0.001)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with progress.Progress() as shown:
        shown.step("compiling")
        assert terminal.used.wait(10)
    assert raised == []
