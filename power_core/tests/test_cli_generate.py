"""``power generate`` over fakes: what goes where, when, and with which exit status."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes import ClosedPipe, FakeGeneration, FakeSession, Outcome, Terminal, WritesLog, run_power
from core_sessions import N_VOCAB, open_fake_session

from power_core.artifacts.values import ValueType
from power_core.cli import main
from power_core.errors import Cancelled, NativeCallError, OutOfMemoryError, TransactionAborted
from power_core.settings import RequestSettings, SessionSettings
from power_core.testing.fakes import plain_decode
from power_core.testing.headers import GgufBytes, minimal_target

Run = Callable[..., Outcome]

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


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: run_power(capsys, *arguments)


def give_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def fail_at(index: int, error: BaseException) -> Callable[[FakeGeneration, int], None]:
    def before(generation: FakeGeneration, at: int) -> None:
        if at == index:
            raise error

    return before


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
    assert list(printed["report"]["timings_ns"]) == ["load", "prefill", "draft", "verify", "sample", "total"]
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


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected exactly one of --prompt TEXT, --prompt-file FILE and -, got none"),
        (("--prompt", "a", "-"), "got --prompt and -"),
        (("--prompt", "a", "--prompt-file", "b"), "got --prompt and --prompt-file"),
        (("some",), "the argument 'some' is not expected"),
        (("--prompt", "a", "--stream", "--json"), "--stream and --json exclude each other"),
        (("--prompt", "a", "--ctx", "x"), "'--ctx'"),
        (("--prompt", "a", "--temperature", "hot"), "'--temperature'"),
        (("--prompt", "a", "--draft-mx", "3"), "--draft-mx"),
        (("--prompt", "a", "--ctx"), "--ctx"),
        (("--prompt", "a", "-", "b"), "b"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
):
    session = FakeSession().install(monkeypatch)
    err = run("generate", *arguments).require_one_line_error("config.usage")
    assert words in err
    assert "--help`" in err
    assert session.settings is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--draft-max", "0"), "`draft_max` is 0, expected a whole number from 1 to 64"),
        (("--draft-max", "-3"), "`draft_max` is -3"),
        (("--snapshots", "0"), "`snapshots` is 0"),
        (("--ctx", "-1"), "`ctx` is -1"),
        (("--max-tokens", "-1"), "`max_tokens` is -1"),
        (("--threads", "-1"), "`threads` is -1"),
        (("--seed", "-1"), "`seed` is -1"),
        (("--temperature", "nan"), "`temperature` is nan"),
        (("--temperature", "-1"), "`temperature` is -1.0"),
        (("--draft-p-min", "2"), "`draft_p_min` is 2.0"),
        (("--verify-rows", "0"), "`verify_rows` is 0"),
        (("--scheduler", "x"), "`scheduler` is 'x', expected one of fixed, adaptive, goodput"),
        (("--flash-attention", "off"), "exact arithmetic needs it on"),
        (("--stop", ""), "`stop` is ''"),
    ],
)
def test_a_value_out_of_range_opens_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
):
    session = FakeSession().install(monkeypatch)
    err = run("generate", "--prompt", "a", *flags).require_one_line_error("config.invalid")
    assert words in err
    assert "hint: " in err
    assert session.settings is None


def test_a_prompt_that_cannot_be_read_opens_nothing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    session = FakeSession().install(monkeypatch)
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"caf\xe9")
    for file, words in (
        (tmp_path / "absent.txt", "does not exist"),
        (tmp_path, "is a directory"),
        (latin, "is not UTF-8 text: byte 3 is 0xe9"),
        (Path("/dev/zero"), "has more than 67108864 bytes"),
    ):
        err = run("generate", "--prompt-file", str(file)).require_one_line_error("config.prompt")
        assert words in err
    give_input(monkeypatch, b"\xff")
    assert "standard input is not UTF-8" in run("generate", "-").require_one_line_error("config.prompt")
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in run("generate", "-").require_one_line_error("config.prompt")
    assert "not valid UTF-8" in run("generate", "--prompt", "\udcff").require_one_line_error("config.prompt")
    assert session.settings is None


def test_a_bad_file_of_settings_is_one_line(run: Run, tmp_path: Path):
    file = tmp_path / "power.toml"
    file.write_text("num_ctxx = 3\n")
    err = run("generate", "--prompt", "a", "--config", str(file)).require_one_line_error("config.file")
    assert "the nearest is `num_ctx`" in err
    run("generate", "--prompt", "a", "--config", str(tmp_path)).require_one_line_error("config.file")
    run("generate", "--prompt", "a", "--config", str(tmp_path / "no")).require_one_line_error("config.file")


@pytest.mark.parametrize("prompt", ["", "x" * 600])
def test_an_empty_or_too_long_prompt_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch, prompt: str):
    monkeypatch.setattr("power_core.cli.generate.open_session", lambda settings, *, progress: open_fake_session())
    run("generate", "--prompt", prompt).require_one_line_error("config.prompt")


def test_chat_without_a_template_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch):
    FakeSession().install(monkeypatch)
    run("generate", "--prompt", "a", "--chat").require_one_line_error("config.chat_template")
    FakeSession(template="{{ raise_exception('two\nlines') }}").install(monkeypatch)
    err = run("generate", "--prompt", "a", "--chat").require_one_line_error("config.chat_template")
    assert "two lines" in err


@pytest.mark.parametrize("as_json", [True, False])
def test_a_model_that_is_none_is_one_line(run: Run, tmp_path: Path, as_json: bool):
    flags = ("--json",) if as_json else ()
    text = tmp_path / "notes.txt"
    text.write_text("not a model")
    truncated = tmp_path / "truncated.gguf"
    truncated.write_bytes(minimal_target().build()[:100])
    huge = tmp_path / "huge.gguf"
    huge.write_bytes(GgufBytes(pair_count=2**63).build())
    for file, code in (
        (tmp_path / "absent.gguf", "artifact.not_found"),
        (tmp_path, "artifact.not_found"),
        (text, "artifact.format"),
        (truncated, "artifact.format"),
        (huge, "artifact.format"),
    ):
        run("generate", "--prompt", "a", "--model", str(file), *flags).require_one_line_error(code)


def test_a_strategy_that_cannot_run_is_one_line(run: Run, tmp_path: Path):
    model = tmp_path / "model.gguf"
    model.write_bytes(minimal_target().with_value("general.name", ValueType.STRING, "t").build())
    arguments = ("generate", "--prompt", "a", "--model", str(model), "--spec")
    assert "unknown speculative strategy 'fast'" in run(*arguments, "fast").require_one_line_error("config.invalid")
    run(*arguments, "mtp").require_one_line_error("strategy.unsupported")
    err = run(*arguments, "draft-model").require_one_line_error("strategy.unsupported")
    assert "reserved" in err


@pytest.mark.parametrize("flags", [(), ("--stream",), ("--json",)])
@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (OutOfMemoryError("needs 8 GB,\nhas 4 GB", hint="use a smaller model"), "native.out_of_memory", 2),
        (NativeCallError("decode failed"), "native.call", 1),
        (ValueError("surprise"), "internal", 1),
    ],
)
def test_an_error_before_the_first_token_leaves_no_output(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], error: Exception, code: str, status: int
):
    session = FakeSession(before=fail_at(0, error)).install(monkeypatch)
    run("generate", "--prompt", "a", *flags).require_one_line_error(code, status=status)
    assert session.closed


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_error_in_mid_text_prints_nothing_unless_streaming(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
):
    FakeSession(before=fail_at(2, NativeCallError("decode failed"))).install(monkeypatch)
    run("generate", "--prompt", "a", *flags).require_one_line_error("native.call", status=1)
    FakeSession(before=fail_at(2, NativeCallError("decode failed"))).install(monkeypatch)
    streamed = run("generate", "--prompt", "a", "--stream")
    assert (streamed.status, streamed.out) == (1, "Hello ")


def test_an_error_while_opening_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch):
    def refuse(settings: SessionSettings, *, progress: object) -> FakeSession:
        raise OutOfMemoryError("the model needs 8 GB")

    monkeypatch.setattr("power_core.cli.generate.open_session", refuse)
    run("generate", "--prompt", "a").require_one_line_error("native.out_of_memory")


def test_debug_shows_the_traceback_and_its_causes(run: Run, monkeypatch: pytest.MonkeyPatch):
    error = TransactionAborted("round 3 failed")
    error.__cause__ = KeyError("cell")
    FakeSession(before=fail_at(0, error)).install(monkeypatch)
    outcome = run("generate", "--prompt", "a", "--debug")
    assert (outcome.status, outcome.out) == (1, "")
    assert "Traceback" in outcome.err
    assert "KeyError: 'cell'" in outcome.err
    assert outcome.err_lines[-1] == "error[txn.aborted]: round 3 failed"


def test_without_debug_an_internal_error_says_how_to_see_more(run: Run, monkeypatch: pytest.MonkeyPatch):
    FakeSession(before=fail_at(0, RuntimeError("odd"))).install(monkeypatch)
    err = run("generate", "--prompt", "a").require_one_line_error("internal", status=1)
    assert "internal error: RuntimeError: odd" in err
    assert "run again with --debug" in err


# ------------------------------------------------------------------------------------------------- interrupts, output


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
