"""``power plugins list``: every installed plugin, the broken ones with the reason."""

from __future__ import annotations

from typing import Any

from power_core.cli.console import EXIT_OK, fold_line, write_out
from power_core.cli.table import format_table
from power_core.json_text import json_text
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import load_plugins

HEADERS = ("NAME", "DISTRIBUTION", "VERSION", "API", "PROVIDES", "STATUS", "ERROR")
EMPTY = "no plugin is installed; pip install power-native power-mtp power-ngram\n"


def run_plugins_list(*, as_json: bool, verbose: bool) -> int:
    """Print the plugins; ``verbose`` adds the traceback of each failure. Broken plugins do not change the status.

    Raises:
        ConfigError: ``POWER_PLUGINS`` names something that is not installed.
    """
    records = load_plugins().plugins
    if as_json:
        write_out(json_text([describe_plugin(record, verbose=verbose) for record in records], indent=2))
        return EXIT_OK
    write_out(plugin_table(records) if records else EMPTY)
    for record in records:
        if verbose and record.error is not None:
            write_out(f"\n{record.distribution} {record.version}\n{record.traceback_text()}")
    return EXIT_OK


def plugin_table(records: list[LoadedPlugin]) -> str:
    """Return the table that ``plugins list`` and ``doctor`` print."""
    rows = [
        (
            record.name,
            record.distribution,
            record.version,
            _api_text(record),
            ", ".join(dict.fromkeys((*record.strategies, *record.backends))) or "-",
            record.status,
            _error_line(record),
        )
        for record in records
    ]
    return format_table(rows, HEADERS)


def describe_plugin(record: LoadedPlugin, *, verbose: bool = False) -> dict[str, Any]:
    """Return the record as plain values for JSON."""
    values: dict[str, Any] = {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "api": _api_text(record) if record.api else None,
        "summary": record.summary,
        "strategies": list(record.strategies),
        "backends": list(record.backends),
        "status": record.status,
        "error": None,
    }
    if record.error is not None:
        values["error"] = {"code": record.error.code, "message": str(record.error), "hint": record.error.hint}
        if verbose:
            values["error"]["traceback"] = record.traceback_text()
    return values


def _api_text(record: LoadedPlugin) -> str:
    return ".".join(str(number) for number in record.api) if record.api else "-"


def _error_line(record: LoadedPlugin) -> str:
    return fold_line(f"{record.error} ({record.error.code})") if record.error else ""
