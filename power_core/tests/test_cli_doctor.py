"""``power doctor``: facts, settings in force with their origin, health checks of strangers, exit status."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes import run_power

from power_core.config import SETTINGS
from power_core.errors import ConfigError, PluginLoadError
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.plugins.types import BackendSpec, HealthCheck, HealthResult

GOOD = HealthResult(name="library", status="ok", detail="found")


def native(*checks: HealthCheck) -> LoadedPlugin:
    spec = BackendSpec(name="llama.cpp", open_model=lambda settings, progress: None)
    return LoadedPlugin(
        name="native",
        distribution="power-native",
        version="0.1.0",
        status="loaded",
        api=(1, 0),
        backends=("llama.cpp",),
        backend_specs=(spec,),
        health_checks=checks,
    )


def failed(status: str) -> LoadedPlugin:
    return LoadedPlugin(
        name="bad",
        distribution="power-bad",
        version="2.0",
        status=status,
        error=PluginLoadError("power-bad failed", hint="reinstall power-bad"),
        strategies=("bad",),
    )


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(*plugins: LoadedPlugin) -> None:
        monkeypatch.setattr("power_core.cli.doctor.load_plugins", lambda: PowerPluginManager(plugins))

    return use


def check(name: str, run: Callable[[], object]) -> HealthCheck:
    return HealthCheck(name=name, run=run)


def exit_now() -> list[HealthResult]:
    raise SystemExit(3)


def test_a_sound_installation_is_described(capsys, install, monkeypatch: pytest.MonkeyPatch):
    install(native(check("library", lambda: [GOOD])))
    for name in [name for name in os.environ if name.startswith("POWER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("POWER_CACHE_DIR", "cache-of-power")
    outcome = run_power(capsys, "doctor")
    assert (outcome.status, outcome.err) == (0, "")
    for words in ("System\n", "Packages\n", "Environment\n", "Plugins\n", "Health\n", "site-packages", "power-native"):
        assert words in outcome.out
    assert "POWER_CACHE_DIR  cache-of-power\n" in outcome.out
    assert "ok       backend: llama.cpp\n" in outcome.out
    assert "ok       library: found\n" in outcome.out
    assert "Settings" not in outcome.out


def test_json_has_the_same_sections(capsys, install):
    install(native(check("library", lambda: [GOOD])))
    outcome = run_power(capsys, "doctor", "--json", "--ctx", "99")
    printed = json.loads(outcome.out)
    assert list(printed) == ["ok", "system", "packages", "environment", "plugins", "health", "settings", "exactness"]
    assert printed["exactness"] is None
    assert printed["ok"] is True
    assert printed["health"][1] == {"name": "library", "status": "ok", "detail": "found", "hint": ""}
    assert [row["setting"] for row in printed["settings"]] == [setting.field for setting in SETTINGS]
    (row,) = [row for row in printed["settings"] if row["origin"] != "default"]
    assert (row["flag"], row["key"], row["value"], row["origin"]) == ("--ctx", "num_ctx", 99, "flag --ctx")


def test_settings_show_where_they_come_from(capsys, install, tmp_path: Path):
    install(native())
    file = tmp_path / "power.toml"
    file.write_text('num_ctx = 64\nspec_draft_max = 2\nmodel = "m.gguf"\nstop = ["a"]\n')
    outcome = run_power(capsys, "doctor", "--config", str(file), "--draft-max", "5")
    lines = {
        line.split()[0]: line.split(maxsplit=3)[2:]
        for line in outcome.out.split("Settings\n")[1].split("\n\n")[0].splitlines()
    }
    assert outcome.status == 0
    assert lines["num_ctx"] == ["64", f"file {file}: num_ctx"]
    assert lines["spec_draft_max"] == ["5", "flag --draft-max"]
    assert lines["model"] == [str(tmp_path / "m.gguf"), f"file {file}: model"]
    assert lines["stop"] == ["['a']", f"file {file}: stop"]
    assert lines["num_thread"] == ["0", "default"]
    assert "(4096, or less" not in outcome.out
    assert "(the strategy's own)" not in outcome.out
    assert "(fits the snapshots)" in outcome.out


def test_settings_that_cannot_be_in_force_are_one_line(capsys, install, tmp_path: Path):
    install(native())
    file = tmp_path / "power.toml"
    file.write_text("spec_draft_max = 2\n")
    outcome = run_power(capsys, "doctor", "--config", str(file), "--draft-min", "3")
    assert "at most draft_max (2)" in outcome.require_one_line_error("config.invalid")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: 1 / 0, "the check raised ZeroDivisionError: division by zero"),
        (exit_now, "the check raised SystemExit: 3"),
        (lambda: None, "the check raised TypeError"),
        (lambda: ["fine"], "the check returned str, expected HealthResult"),
    ],
)
def test_a_check_that_misbehaves_is_an_error_of_its_own(capsys, install, run: Callable[[], object], words: str):
    install(native(check("odd", run), check("library", lambda: [GOOD])))
    outcome = run_power(capsys, "doctor")
    assert outcome.status == 1
    assert f"error    odd: {words}" in outcome.out
    assert "ok       library: found" in outcome.out
    assert "hint: report this to the plugin's authors" in outcome.out


@pytest.mark.parametrize(("status", "exit_status"), [("ok", 0), ("warning", 0), ("error", 1)])
def test_only_errors_change_the_exit_status(capsys, install, status: str, exit_status: int):
    result = HealthResult(name="x", status=status, detail="d", hint="do y")
    install(native(check("x", lambda: [result])))
    assert run_power(capsys, "doctor").status == exit_status
    assert json.loads(run_power(capsys, "doctor", "--json").out)["ok"] is (exit_status == 0)


def test_a_broken_plugin_is_in_error_and_one_left_out_is_not(capsys, install):
    install(native(), failed("failed"))
    outcome = run_power(capsys, "doctor")
    assert outcome.status == 1
    assert "error    power-bad: power-bad failed\n         hint: reinstall power-bad\n" in outcome.out
    install(native(), failed("left out"))
    assert run_power(capsys, "doctor").status == 0


def test_without_a_backend_the_package_is_named(capsys, install):
    install()
    outcome = run_power(capsys, "doctor")
    assert outcome.status == 1
    assert "hint: pip install power-native" in outcome.out
    assert "Plugins\nnone\n" in outcome.out


def test_a_wrong_choice_of_plugins_is_a_finding(capsys, monkeypatch: pytest.MonkeyPatch):
    def refuse() -> PowerPluginManager:
        raise ConfigError("`POWER_PLUGINS` names 'x'", hint="unset it")

    monkeypatch.setattr("power_core.cli.doctor.load_plugins", refuse)
    outcome = run_power(capsys, "doctor")
    assert outcome.status == 1
    assert "error    plugins: `POWER_PLUGINS` names 'x'\n         hint: unset it\n" in outcome.out
