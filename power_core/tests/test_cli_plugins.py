"""``power plugins list``: working, broken and left-out plugins in one table."""

from __future__ import annotations

import json

import pytest
from cli_fakes import run_power

from power_core.errors import ConfigError, PluginLoadError
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager


def load_error() -> PluginLoadError:
    try:
        try:
            raise ImportError("no module named\n'cuda'")
        except ImportError as cause:
            raise PluginLoadError(f"power-bad 2.0 failed in import: {cause}", hint="reinstall power-bad") from cause
    except PluginLoadError as error:
        return error


def records() -> list[LoadedPlugin]:
    return [
        LoadedPlugin(
            name="bad",
            distribution="power-bad",
            version="2.0",
            status="failed",
            error=load_error(),
            strategies=("bad",),
        ),
        LoadedPlugin(
            name="mtp",
            distribution="power-mtp",
            version="0.1.0",
            status="loaded",
            api=(1, 0),
            summary="Multi-token prediction.",
            strategies=("mtp",),
        ),
        LoadedPlugin(
            name="native",
            distribution="power-native",
            version="0.1.0",
            status="loaded",
            api=(1, 0),
            backends=("llama.cpp",),
        ),
    ]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power_core.cli.plugins.load_plugins", lambda: PowerPluginManager(records()))


def test_the_table_has_one_line_per_plugin(capsys: pytest.CaptureFixture[str], installed: None):
    outcome = run_power(capsys, "plugins", "list")
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["NAME", "DISTRIBUTION", "VERSION", "API", "PROVIDES", "STATUS", "ERROR"]
    assert lines[1].split()[:6] == ["bad", "power-bad", "2.0", "-", "bad", "failed"]
    assert lines[1].endswith("power-bad 2.0 failed in import: no module named 'cuda' (plugin.load)")
    assert lines[2].split() == ["mtp", "power-mtp", "0.1.0", "1.0", "mtp", "loaded"]
    assert lines[3].split() == ["native", "power-native", "0.1.0", "1.0", "llama.cpp", "loaded"]
    assert len(lines) == 4


@pytest.mark.parametrize("flag", ["-v", "--verbose", "--debug"])
def test_tracebacks_are_shown_on_request(capsys: pytest.CaptureFixture[str], installed: None, flag: str):
    text = run_power(capsys, "plugins", "list", flag).out
    assert "Traceback" in text
    assert "ImportError: no module named" in text


def test_json_has_every_plugin(capsys: pytest.CaptureFixture[str], installed: None):
    bad, mtp, native = json.loads(run_power(capsys, "plugins", "list", "--json").out)
    assert list(mtp) == [
        "name",
        "distribution",
        "version",
        "api",
        "summary",
        "strategies",
        "backends",
        "status",
        "error",
    ]
    assert (mtp["api"], mtp["strategies"], mtp["error"]) == ("1.0", ["mtp"], None)
    assert bad["error"] == {
        "code": "plugin.load",
        "message": "power-bad 2.0 failed in import: no module named\n'cuda'",
        "hint": "reinstall power-bad",
    }
    assert native["backends"] == ["llama.cpp"]
    verbose = json.loads(run_power(capsys, "plugins", "list", "--json", "-v").out)
    assert "ImportError" in verbose[0]["error"]["traceback"]


def test_without_plugins_the_next_step_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("power_core.cli.plugins.load_plugins", lambda: PowerPluginManager([]))
    assert "pip install power-native" in run_power(capsys, "plugins", "list").out
    assert json.loads(run_power(capsys, "plugins", "list", "--json").out) == []


def test_a_wrong_choice_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def refuse() -> PowerPluginManager:
        raise ConfigError("`POWER_PLUGINS` names 'x'", hint="unset it")

    monkeypatch.setattr("power_core.cli.plugins.load_plugins", refuse)
    run_power(capsys, "plugins", "list").require_one_line_error("config.invalid")
