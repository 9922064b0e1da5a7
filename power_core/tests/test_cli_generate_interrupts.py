"""``power generate`` over fakes: Ctrl-C, a reader that left, and a closed standard output."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from cli_fakes import ClosedPipe, FakeGeneration, FakeSession, run_power
from cli_inputs import Run

from power_core.errors import Cancelled
from power_core.settings import SessionSettings


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Hear Ctrl-C: a shell starts its background jobs deaf to it."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


def interrupt_at(index: int) -> Callable[[FakeGeneration, int], None]:
    """Press Ctrl-C while the main thread is busy, and stay busy until somebody cancels."""

    def before(generation: FakeGeneration, at: int) -> None:
        if at == index:
            os.kill(os.getpid(), signal.SIGINT)
            assert generation.cancelled.wait(10)
            raise Cancelled

    return before


@pytest.mark.parametrize(("index", "text"), [(0, ""), (2, "Hello ")])
def test_ctrl_c_cancels_and_keeps_text_and_report(run: Run, monkeypatch: pytest.MonkeyPatch, index: int, text: str):
    session = FakeSession(before=interrupt_at(index)).install(monkeypatch)
    handler = signal.getsignal(signal.SIGINT)
    outcome = run("generate", "--prompt", "a")
    assert (outcome.status, outcome.out) == (130, text)
    assert outcome.err_lines[-1] == "finish                  cancelled"
    assert signal.getsignal(signal.SIGINT) is handler
    assert session.generation.cancelled_by[0] == "power-interrupt"
    assert session.closed


def test_ctrl_c_with_json_gives_the_whole_object(run: Run, monkeypatch: pytest.MonkeyPatch):
    FakeSession(before=interrupt_at(1)).install(monkeypatch)
    outcome = run("generate", "--prompt", "a", "--json")
    assert outcome.status == 130
    assert json.loads(outcome.out)["finish_reason"] == "cancelled"


def test_a_second_ctrl_c_does_not_wait_for_the_running_step(run: Run, monkeypatch: pytest.MonkeyPatch):
    def before(generation: FakeGeneration, index: int) -> None:
        if index == 1 and not generation.cancelled_by:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(10)

    FakeSession(before=before).install(monkeypatch)
    outcome = run("generate", "--prompt", "a", "--stream")
    assert (outcome.status, outcome.out) == (130, "Hel")
    assert outcome.err_lines[-1] == "finish                  cancelled"


def test_ctrl_c_while_opening_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupt(settings: SessionSettings, *, progress: object) -> FakeSession:
        raise KeyboardInterrupt

    monkeypatch.setattr("power_core.cli.generate.open_session", interrupt)
    run("generate", "--prompt", "a").require_one_line_error("cancelled", status=130)


def test_a_reader_that_left_ends_the_run_quietly(run: Run, monkeypatch: pytest.MonkeyPatch):
    session = FakeSession().install(monkeypatch)
    monkeypatch.setattr(sys, "stdout", ClosedPipe())
    outcome = run("generate", "--prompt", "a", "--stream")
    assert (outcome.status, outcome.err) == (141, "")
    assert session.closed


def test_a_closed_standard_output_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch):
    FakeSession().install(monkeypatch)
    monkeypatch.setattr(sys, "stdout", None)
    outcome = run("generate", "--prompt", "a")
    assert outcome.status == 2
    assert outcome.err.startswith("error[config.invalid]: standard output is closed\nhint: ")


def test_an_interrupt_while_loading_ends_quietly_and_opens_nothing(capsys, monkeypatch: pytest.MonkeyPatch):
    closed = []

    class Opened:
        def close(self):
            closed.append(True)

    def slow_open(settings, *, progress):
        progress("load", 1, 2)
        signal.raise_signal(signal.SIGINT)
        for _ in range(200):
            time.sleep(0.01)
            progress("load", 2, 2)
        return Opened()

    monkeypatch.setattr("power_core.cli.generate.open_session", slow_open)
    outcome = run_power(capsys, "generate", "--prompt", "hi")
    assert outcome.status == 130
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
