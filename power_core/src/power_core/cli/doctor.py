"""``power doctor``: what this installation consists of, which settings are in force, and what is wrong."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.cache_dir import cache_dir
from power_core.cli.console import EXIT_ERROR, EXIT_OK, fold_line, write_out
from power_core.cli.exactness_table import survey_model, survey_text, survey_values
from power_core.cli.plugins import describe_plugin, plugin_table
from power_core.cli.table import format_table
from power_core.cli.versions import package_version
from power_core.config import SETTINGS, resolve
from power_core.errors import PowerError
from power_core.exactness.survey import Survey
from power_core.json_text import json_text
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.plugins.types import HealthCheck, HealthResult
from power_core.settings import SessionSettings

PACKAGES = ("power-core", "attrs", "cattrs", "gguf", "jinja2", "numpy", "pluggy", "rich", "typer")


@attrs.frozen(kw_only=True)
class Diagnosis:
    """All that ``doctor`` prints; ``settings`` is empty unless a file or flags were given, ``survey`` without model."""

    system: Mapping[str, str]
    packages: Mapping[str, str]
    environment: Mapping[str, str]
    plugins: PowerPluginManager | None
    health: tuple[HealthResult, ...]
    settings: tuple[Mapping[str, Any], ...]
    survey: tuple[SessionSettings, Survey] | None = None

    @property
    def failed(self) -> bool:
        """True when something is in error."""
        return any(result.status == "error" for result in self.health)


def run_doctor(flags: Mapping[str, Any], config: Path | None, *, as_json: bool) -> int:
    """Print the diagnosis; 1 when something is in error.

    Raises:
        ConfigError: the settings cannot be in force.
    """
    settings = settings_in_force(flags, config) if flags or config is not None else ()
    plugins, health = _examine_plugins()
    survey = None
    if "model" in flags and plugins is not None:
        try:
            session = resolve(flags, config).session
            survey = (session, survey_model(session, plugins.backend()))
        except PowerError as error:
            health.append(_failure("exactness", error))
    packages = [record.distribution for record in plugins.plugins] if plugins else []
    diagnosis = Diagnosis(
        system=_system(),
        packages={name: package_version(name) for name in dict.fromkeys([*PACKAGES, *packages])},
        environment={name: value for name, value in sorted(os.environ.items()) if name.startswith("POWER_")},
        plugins=plugins,
        health=tuple(health),
        settings=settings,
        survey=survey,
    )
    write_out(_to_json(diagnosis) if as_json else _to_text(diagnosis))
    return EXIT_ERROR if diagnosis.failed else EXIT_OK


def settings_in_force(flags: Mapping[str, Any], config: Path | None) -> tuple[Mapping[str, Any], ...]:
    """Return the names, value and origin of every setting, in the order of the table of settings."""
    configuration = resolve(flags, config)
    return tuple(
        {
            "setting": setting.field,
            "flag": setting.flag,
            "key": setting.key,
            "value": _plain(configuration.value(setting)),
            "unset": setting.unset,
            "origin": configuration.origins[setting.field],
        }
        for setting in SETTINGS
    )


def run_health_check(check: HealthCheck) -> list[HealthResult]:
    """Run a plugin's check; what it raises, and what it returns other than results, becomes an error of its own."""
    try:
        results: Any = list(check.run())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a stranger's code; SystemExit must not end the diagnosis either
        detail = f"the check raised {type(error).__name__}: {error}"
        return [
            HealthResult(name=check.name, status="error", detail=detail, hint="report this to the plugin's authors")
        ]
    strangers = [result for result in results if not isinstance(result, HealthResult)]
    if strangers:
        detail = f"the check returned {type(strangers[0]).__name__}, expected HealthResult"
        return [
            HealthResult(name=check.name, status="error", detail=detail, hint="report this to the plugin's authors")
        ]
    return list(results)


def _examine_plugins() -> tuple[PowerPluginManager | None, list[HealthResult]]:
    try:
        plugins = load_plugins()
    except PowerError as error:
        return None, [_failure("plugins", error)]
    health = [
        _failure(record.distribution, record.error)
        for record in plugins.plugins
        if record.error is not None and record.status != "left out"
    ]
    try:
        health.append(HealthResult(name="backend", status="ok", detail=plugins.backend().name))
    except PowerError as error:
        health.append(_failure("backend", error))
    for check in plugins.health_checks():
        health += run_health_check(check)
    return plugins, health


def _failure(name: str, error: PowerError) -> HealthResult:
    return HealthResult(name=name, status="error", detail=str(error), hint=error.hint)


def _system() -> dict[str, str]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "platform": platform.platform(),
        "processors": str(os.cpu_count()),
        "site-packages": sysconfig.get_path("purelib"),
        "cache": _cache_text(),
    }


def _cache_text() -> str:
    try:
        return str(cache_dir())
    except PowerError as error:
        return str(error)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _to_json(diagnosis: Diagnosis) -> str:
    values = {
        "ok": not diagnosis.failed,
        "system": dict(diagnosis.system),
        "packages": dict(diagnosis.packages),
        "environment": dict(diagnosis.environment),
        "plugins": [describe_plugin(record) for record in diagnosis.plugins.plugins] if diagnosis.plugins else [],
        "health": [attrs.asdict(result) for result in diagnosis.health],
        "settings": [dict(setting) for setting in diagnosis.settings],
        "exactness": None if diagnosis.survey is None else survey_values(*diagnosis.survey),
    }
    return json_text(values, indent=2)


def _to_text(diagnosis: Diagnosis) -> str:
    records = diagnosis.plugins.plugins if diagnosis.plugins else []
    sections = {
        "System": format_table(list(diagnosis.system.items())),
        "Packages": format_table(list(diagnosis.packages.items())),
        "Environment": format_table(list(diagnosis.environment.items())) or "no POWER_* variable is set\n",
        "Settings": format_table(
            [(row["key"], row["flag"], _shown(row), row["origin"]) for row in diagnosis.settings],
            ("KEY", "FLAG", "VALUE", "FROM"),
        ),
        "Plugins": plugin_table(records) if records else "none\n",
        "Exactness": "" if diagnosis.survey is None else survey_text(*diagnosis.survey),
        "Health": "".join(_health_lines(result) for result in diagnosis.health),
    }
    return "\n".join(f"{title}\n{body}" for title, body in sections.items() if body)


def _shown(setting: Mapping[str, Any]) -> str:
    value = setting["value"]
    return f"({setting['unset']})" if value in (None, []) else str(value)


def _health_lines(result: HealthResult) -> str:
    line = f"{result.status:<9}{fold_line(f'{result.name}: {result.detail}')}\n"
    return line + (f"{'':<9}hint: {fold_line(result.hint)}\n" if result.hint else "")
