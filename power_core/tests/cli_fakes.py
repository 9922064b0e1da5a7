"""The command line over fakes: what a run wrote, scripted generations, and terminals that are none."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from power_core.cli import main
from power_core.errors import Cancelled
from power_core.report import GenerationResult, Report, Timings
from power_core.settings import SessionSettings
from power_core.testing.fakes import FakeModel


@attrs.frozen(kw_only=True)
class Outcome:
    """Exit status and both streams of one run."""

    status: int
    out: str
    err: str

    @property
    def err_lines(self) -> list[str]:
        return self.err.splitlines()

    def require_one_line_error(self, code: str, *, status: int = 2) -> str:
        """Check the shape every error has, and return its line."""
        assert self.status == status, self
        assert self.out == ""
        assert "Traceback" not in self.err
        errors = [line for line in self.err_lines if line.startswith(f"error[{code}]: ")]
        hints = [line for line in self.err_lines if line.startswith("hint: ")]
        assert len(errors) == 1, self.err
        assert self.err_lines == errors + hints
        return self.err


def run_power(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    status = main(list(arguments))
    captured = capsys.readouterr()
    return Outcome(status=status, out=captured.out, err=captured.err)


@attrs.frozen(kw_only=True)
class Piece:
    token: int | None
    text: str


class FakeGeneration:
    """Hands out scripted pieces; ``before`` runs before each one and may raise or interrupt."""

    def __init__(self, texts: list[str], before: Callable[[FakeGeneration, int], None]) -> None:
        self.texts = texts
        self.before = before
        self.shown: list[str] = []
        self.cancelled_by: list[str] = []
        self.cancelled = threading.Event()
        self.report = Report(
            strategy="mtp",
            guarantee="bit-identical(8)",
            rounds=4,
            target_calls=5,
            drafted_tokens=12,
            accepted_tokens=6,
            verified_tokens=10,
            timings_ns=Timings(load=1_000_000, prefill=500_000_000, total=1_500_000_000),
        )

    def __iter__(self) -> Iterator[Piece]:
        for index in range(len(self.shown), len(self.texts)):
            if self.cancelled_by:
                return
            try:
                self.before(self, index)
            except Cancelled:
                return
            self.shown.append(self.texts[index])
            yield Piece(token=index, text=self.texts[index])

    def cancel(self) -> None:
        self.cancelled_by.append(threading.current_thread().name)
        self.cancelled.set()

    def result(self) -> GenerationResult:
        for _ in self:
            pass
        self.report.emitted_tokens = len(self.shown)
        return GenerationResult(
            tokens=tuple(range(len(self.shown))),
            text="".join(self.shown),
            finish_reason="cancelled" if self.cancelled_by else "length",
            report=self.report,
        )


def no_fault(generation: FakeGeneration, index: int) -> None:
    """Every piece comes."""


class FakeSession:
    """Records what it was opened with and asked for."""

    def __init__(
        self,
        texts: list[str] | None = None,
        before: Callable[[FakeGeneration, int], None] = no_fault,
        template: str | None = None,
    ) -> None:
        self.model = FakeModel()
        if template is not None:
            self.model.info = attrs.evolve(self.model.info, chat_template=template)
        self.generation = FakeGeneration(["Hel", "lo ", "world"] if texts is None else texts, before)
        self.settings: SessionSettings | None = None
        self.calls: list[tuple[Any, Any]] = []
        self.closed = False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
        monkeypatch.setattr("power_core.cli.generate.open_session", self.open)
        return self

    def open(self, settings: SessionSettings, *, progress: Callable[[str, int, int], None]) -> FakeSession:
        self.settings = settings
        progress("load", 500, 1000)
        return self

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True

    def generate(self, prompt: Any, request: Any, *, on_prefill: Callable[[int, int], None]) -> FakeGeneration:
        self.calls.append((prompt, request))
        on_prefill(1, 2)
        return self.generation


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class WritesLog(io.StringIO):
    """Remembers every write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


class ClosedPipe(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")
