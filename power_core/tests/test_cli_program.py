"""The program as a whole: help, version, usage errors, output that cannot be written, imports, the generated page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes import ClosedPipe, Terminal, run_power
from hypothesis import given
from hypothesis import strategies as st

from power_core.cli import console
from power_core.cli.table import format_table
from power_core.config import SETTINGS
from power_core.errors import ConfigError, PowerError

ROOT = Path(__file__).parents[2]
START = "import sys; from power_core.cli import main; sys.exit(main())"
COMMANDS = [
    ("generate",),
    ("doctor",),
    ("inspect",),
    ("plugins", "list"),
    ("bench",),
    ("compare",),
    ("plot",),
    ("schema",),
]

BROKEN_PLUGIN = """
raise SystemExit("this plugin is broken")
"""


def install_broken_plugin(folder: Path) -> None:
    (folder / "power_broken.py").write_text(BROKEN_PLUGIN)
    info = folder / "power_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: power-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[power]\nbroken = power_broken\n")


def start(*arguments: str, path: Path | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, with the import path of this one behind ``path``."""
    folders = [str(path)] if path else []
    environment = {"PYTHONPATH": ":".join([*folders, *(entry for entry in sys.path if entry)]), "COLUMNS": "120"}
    command = [sys.executable, "-c", START, *arguments]
    return subprocess.run(
        command, text=True, env=environment, check=False, timeout=60, **{"capture_output": True, **options}
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]):
    outcome = run_power(capsys, *command, "--help")
    assert outcome.status == 0
    assert "Examples:" in outcome.out
    assert f"power {' '.join(command)}" in outcome.out.split("Examples:")[1]


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]):
    for command in ("generate", "doctor", "bench"):
        text = run_power(capsys, command, "--help").out
        assert all(setting.flag in text for setting in SETTINGS)


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]):
    text = run_power(capsys, "--help").out
    assert all(command[0] in text for command in COMMANDS)


def test_version_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("power_core.cli.application.package_version", lambda name: f"1.2.3 of {name}")
    outcome = run_power(capsys, "--version")
    assert (outcome.status, outcome.out, outcome.err) == (0, "power 1.2.3 of power-core\n", "")


@pytest.mark.parametrize("arguments", [("nonsense",), ("--nonsense",), ("plugins", "nonsense"), ("inspect",)])
def test_a_wrong_command_is_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]):
    run_power(capsys, *arguments).require_one_line_error("config.usage")


@pytest.mark.parametrize("arguments", [(), ("plugins",)])
def test_a_missing_command_shows_the_help(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]):
    outcome = run_power(capsys, *arguments)
    assert outcome.status in (0, 2)  # older releases of Typer count this as a success
    assert "Usage: power" in outcome.out + outcome.err
    assert "error[" not in outcome.err


def test_help_works_with_every_plugin_broken(tmp_path: Path):
    install_broken_plugin(tmp_path)
    assert start("--help", path=tmp_path).returncode == 0
    assert start("generate", "--help", path=tmp_path).returncode == 0
    listed = start("plugins", "list", path=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    (line,) = [line for line in listed.stdout.splitlines() if "power-broken" in line]
    assert "failed" in line
    assert "this plugin is broken" in line
    examined = start("doctor", path=tmp_path)
    assert (examined.returncode, examined.stderr) == (1, "")
    assert "error    power-broken: " in examined.stdout


def test_help_imports_no_session_and_no_template_engine():
    probe = "import sys; from power_core.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = set(
        subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stderr.split()
    )
    assert not loaded & {"jinja2", "gguf", "power_core.session", "power_core.opening", "power_native", "pluggy"}


def test_importing_the_core_imports_no_command_line_library():
    probe = "import sys, power_core, power_core.chat, power_core.config; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"typer", "rich", "jinja2", "power_core.cli"}


def test_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = start("plugins", "list", "--json", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        "error[output.failed]: standard output cannot be written: No space left on device"
    )
    assert len(done.stderr.splitlines()) == 2


def test_the_page_of_the_command_line_is_up_to_date():
    script = ROOT / "docs" / "generate_cli.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------------ console


@given(st.text())
def test_a_folded_line_is_printable_and_single(text: str):
    line = console.fold_line(text)
    assert line.isprintable()
    assert console.fold_line(line) == line
    line.encode("utf-8")


def test_a_folded_line_keeps_what_can_be_printed():
    assert console.fold_line("  a\n\tb \u00e9 \x1b[2J \udcff") == "a b \u00e9 \\x1b[2J \\udcff"
    assert len(console.fold_line("x" * 10_000)) == console.MAX_LINE_CHARACTERS + 3


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("wrong"), 2),
        (PowerError("broken"), 1),
        (ZeroDivisionError("odd"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
)
def test_every_error_has_its_status(capsys: pytest.CaptureFixture[str], error: BaseException, status: int):
    assert console.run_guarded(lambda: raising(error), debug=False) == status
    assert console.run_guarded(lambda: raising(error), debug=True) == status
    assert capsys.readouterr().out == ""


def test_the_status_of_a_good_command_is_its_own(capsys: pytest.CaptureFixture[str]):
    assert console.run_guarded(lambda: 7, debug=False) == 7
    assert capsys.readouterr() == ("", "")


def test_errors_are_coloured_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    console.print_error("config.x", "wrong", "right it")
    assert capsys.readouterr().err == "error[config.x]: wrong\nhint: right it\n"
    for no_color, plain in (("", False), ("1", True)):
        terminal = Terminal()
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setattr(sys, "stderr", terminal)
        console.print_error("config.x", "wrong")
        assert (terminal.getvalue() == "error[config.x]: wrong\n") is plain


def test_a_missing_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "stderr", None)
    console.print_error("config.x", "wrong")
    assert capsys.readouterr().out == ""


def test_a_pipe_without_reader_is_told_apart_from_a_full_disk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", ClosedPipe())
    with pytest.raises(BrokenPipeError):
        console.write_out("x")


def test_a_table_is_aligned_and_has_one_line_per_row():
    text = format_table([("a", "1\n2", ""), ("long", "3", "x")], ("N", "V", "E"))
    assert text == "N     V    E\na     1 2\nlong  3    x\n"
    assert format_table([]) == ""
