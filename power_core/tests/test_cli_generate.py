"""``power generate`` over fakes: what goes where, and when."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from cli_fakes import FakeGeneration, FakeSession, Terminal, WritesLog
from cli_inputs import Run, give_input
from core_sessions import N_VOCAB, open_fake_session

from power_core.cli import main
from power_core.report import ProbeRecord
from power_core.scheduling import Decision
from power_core.settings import RequestSettings, SessionSettings
from power_core.testing.fakes import plain_decode

REPORT_NAMES = [
    "strategy",
    "guarantee",
    "rounds",
    "drafted",
    "accepted",
    "emitted",
    "acceptance",
    "tokens per target pass",
    "replays",
    "speed",
    "time",
    "finish",
]


def test_text_goes_to_stdout_and_the_report_to_stderr(run: Run, monkeypatch: pytest.MonkeyPatch):
    session = FakeSession().install(monkeypatch)
    outcome = run("generate", "--prompt", "Hi")
    assert (outcome.status, outcome.out) == (0, "Hello world")
    assert outcome.err.startswith("\n")
    assert [line[:24].strip() for line in outcome.err_lines[1:]] == REPORT_NAMES
    values = {line[:24].strip(): line[24:] for line in outcome.err_lines[1:]}
    assert values["strategy"] == "mtp"
    assert values["rounds"] == "4 (5 target calls)"
    assert values["acceptance"] == "50.0%"
    assert values["tokens per target pass"] == "2.50"
    assert values["speed"] == "3.0 tok/s"
    assert values["guarantee"] == "bit-identical(8)"
    assert session.closed


def test_the_report_fits_one_screen_and_shows_events(run: Run, monkeypatch: pytest.MonkeyPatch):
    session = FakeSession().install(monkeypatch)
    session.generation.report.add_event("default_target", detail="random\nweights\x1b[0m")
    session.generation.report.add_event("auto", refused={"mtp": "x" * 500})
    for limit in range(19):
        session.generation.report.add_event("rollback_guard", draft_limit=limit)
    lines = run("generate", "--prompt", "Hi").err_lines
    assert len(lines) <= 24
    assert "event                   default_target: round 4, random weights\\x1b[0m" in lines
    assert "event                   rollback_guard: round 4, draft_limit 0" in lines
    assert all(len(line) < 200 for line in lines)
    assert any(line.endswith("x... see --json") for line in lines)
    assert lines[-1] == "event                   13 more, see --json"


def test_the_report_shows_what_a_guarantee_rests_on(run: Run, monkeypatch: pytest.MonkeyPatch):
    report = FakeSession().install(monkeypatch).generation.report
    report.guarantee, report.guarded_rows, report.guard_calls = "margin-guarded", 3, 7
    report.probe = ProbeRecord(widest_rows=1, depths_tokens=(8, 255), largest_difference=0.5)
    lines = run("generate", "--prompt", "Hi").err_lines
    assert "guarantee               margin-guarded, measured at 8, 255 tokens" in lines
    assert "decided again           3 near-ties (7 target calls)" in lines


def test_the_report_shows_what_a_drafter_says_of_itself(run: Run, monkeypatch: pytest.MonkeyPatch):
    report = FakeSession().install(monkeypatch).generation.report
    report.settings["drafter"] = {"fr_rows": 64, "fr_order": "token\nid"}
    assert "drafter                 fr_rows 64, fr_order token id" in run("generate", "--prompt", "Hi").err_lines


def test_the_report_sums_up_what_a_scheduler_decided(run: Run, monkeypatch: pytest.MonkeyPatch):
    report = FakeSession().install(monkeypatch).generation.report
    report.settings["scheduler"] = "goodput"
    report.draft_limit_histogram = {0: 3, 7: 2, 4: 9}
    report.add_decision(Decision(width_tokens=4, reason="goodput"))
    lines = run("generate", "--prompt", "Hi").err_lines
    assert "scheduler               goodput, 0 to 7 drafts a round, mostly 4; decisions: 1" in lines


def test_json_is_one_object_and_nothing_else(run: Run, monkeypatch: pytest.MonkeyPatch):
    FakeSession().install(monkeypatch)
    outcome = run("generate", "--prompt", "Hi", "--json")
    assert (outcome.status, outcome.err, outcome.out.count("\n")) == (0, "", 1)
    printed = json.loads(outcome.out)
    assert list(printed) == ["tokens", "text", "finish_reason", "report"]
    assert set(printed["report"]) >= {
        "strategy",
        "rounds",
        "target_passes",
        "target_calls",
        "drafted_tokens",
        "accepted_tokens",
        "emitted_tokens",
        "acceptance_rate",
        "tokens_per_target_pass",
        "replays",
        "guarantee",
        "events",
        "timings_ns",
    }
    assert list(printed["report"]["timings_ns"]) == [
        "load",
        "prefill",
        "draft",
        "verify",
        "guard",
        "sample",
        "probe",
        "total",
    ]
    assert (printed["tokens"], printed["text"], printed["finish_reason"]) == ([0, 1, 2], "Hello world", "length")


def test_streaming_shows_every_piece_at_once(monkeypatch: pytest.MonkeyPatch):
    FakeSession().install(monkeypatch)
    log = WritesLog()
    monkeypatch.setattr(sys, "stdout", log)
    assert main(["generate", "--prompt", "Hi", "--stream"]) == 0
    assert log.writes == ["Hel", "lo ", "world"]


@pytest.mark.parametrize("flags", [(), ("--no-stream",)])
def test_without_a_terminal_the_text_comes_at_the_end(monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]):
    FakeSession().install(monkeypatch)
    log = WritesLog()
    monkeypatch.setattr(sys, "stdout", log)
    assert main(["generate", "--prompt", "Hi", *flags]) == 0
    assert log.writes == ["Hello world"]


def test_a_terminal_streams_and_ends_its_line(monkeypatch: pytest.MonkeyPatch):
    session = FakeSession().install(monkeypatch)
    out, err = Terminal(), Terminal()
    session.generation.before = lambda generation, index: check_shown(out, generation)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["generate", "--prompt", "Hi"]) == 0
    assert out.getvalue() == "Hello world\n"
    assert "strategy" in err.getvalue()


def check_shown(out: io.StringIO, generation: FakeGeneration) -> None:
    assert out.getvalue() == "".join(generation.shown)


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch):
    for terminal in (True, False):
        FakeSession().install(monkeypatch)
        err = Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        monkeypatch.setattr(sys, "stderr", err)
        assert main(["generate", "--prompt", "Hi"]) == 0
        assert ("Loading the model" in err.getvalue()) is terminal


def test_settings_reach_the_session(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    session = FakeSession().install(monkeypatch)
    file = tmp_path / "power.toml"
    file.write_text('num_ctx = 100\nnum_batch = 50\nstop = ["x"]\n')
    status = run(
        *("generate", "--prompt", "Hi", "--config", str(file), "--ctx", "64", "--spec", "mtp", "--verify-rows", "all"),
        *(
            "--max-tokens",
            "3",
            "--temperature",
            "0.5",
            "--seed",
            "9",
            "--stop",
            "a",
            "--stop",
            "b",
            "--gpu-layers",
            "-1",
        ),
    ).status
    assert status == 0
    assert session.settings == SessionSettings(ctx=64, batch=50, spec="mtp", verify_rows="all", gpu_layers=-1)
    prompt, request = session.calls[0]
    assert (prompt, request.max_tokens, request.stop) == ("Hi", 3, ("a", "b"))
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 9)


@pytest.mark.parametrize("arguments", [("-",), ("--prompt-file", "-")])
def test_a_dash_reads_standard_input_unchanged(run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]):
    session = FakeSession().install(monkeypatch)
    give_input(monkeypatch, "a\r\nb \u00e9\n".encode())
    assert run("generate", *arguments).status == 0
    assert session.calls[0] == ("a\r\nb \u00e9\n", RequestSettings())


def test_a_prompt_file_is_read_unchanged(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    session = FakeSession().install(monkeypatch)
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"one\r\ntwo\n")
    assert run("generate", "--prompt-file", str(file)).status == 0
    assert session.calls[0][0] == "one\r\ntwo\n"


def test_chat_renders_the_template_and_reports_its_digest(run: Run, monkeypatch: pytest.MonkeyPatch):
    session = FakeSession(template="<{{ messages[0].role }}>{{ messages[0].content }}").install(monkeypatch)
    outcome = run("generate", "--prompt", "Hi", "--chat", "--json")
    assert session.calls[0][0] == session.model.vocabulary.tokenize("<user>Hi")
    (event,) = json.loads(outcome.out)["report"]["events"]
    assert event["event"] == "chat_template"
    assert len(event["sha256"]) == 64


def test_the_real_loop_gives_the_tokens_of_plain_decoding(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("power_core.cli.generate.open_session", lambda settings, *, progress: open_fake_session())
    outcome = run("generate", "--prompt", "Hi", "--max-tokens", "5", "--json")
    prompt = [ord("H"), ord("i") % N_VOCAB]
    assert json.loads(outcome.out)["tokens"] == plain_decode(prompt, 5, N_VOCAB)
