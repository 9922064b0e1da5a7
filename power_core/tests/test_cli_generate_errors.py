"""``power generate`` over fakes: each error is one line with its exit status, and none leaves output behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes import FakeGeneration, FakeSession
from cli_inputs import Run, give_input
from core_sessions import open_fake_session

from power_core.artifacts.values import ValueType
from power_core.errors import NativeCallError, OutOfMemoryError, TransactionAborted
from power_core.settings import SessionSettings
from power_core.testing.headers import GgufBytes, minimal_target


def fail_at(index: int, error: BaseException) -> Callable[[FakeGeneration, int], None]:
    def before(generation: FakeGeneration, at: int) -> None:
        if at == index:
            raise error

    return before


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
