"""Reports as JSON files: written at once or not at all, read back value by value, nothing repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cattrs
from cattrs.strategies import configure_union_passthrough

from power_core.bench.records import SCHEMA_NAME, BenchReport
from power_core.bench.validity import require_valid_report
from power_core.errors import ConfigError
from power_core.json_text import json_text
from power_core.whole_file import whole_file

MOST_BYTES = 268_435_456


def to_json(report: BenchReport) -> str:
    """Return the report as JSON, one value a line."""
    return json_text(report.to_dict(), indent=1)


def write_report(report: BenchReport, path: Path) -> None:
    """Write the report; an existing file is replaced at once, never half-written.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with whole_file(path) as partial:
            partial.write_text(to_json(report), encoding="utf-8")
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise _file_error(path, problem, "check the folder after --json") from error


def read_report(path: Path) -> BenchReport:
    """Read a report and check it as if it had just been made.

    Raises:
        ConfigError: the file cannot be read or holds no report of this format.
        BenchError: its figures do not follow from its samples; see ``require_valid_report``.
    """
    values = _read_json(path)
    if not isinstance(values, dict) or values.get("schema") != SCHEMA_NAME:
        found = values.get("schema") if isinstance(values, dict) else type(values).__name__
        raise _file_error(path, f"is no benchmark report: its schema is {found!r}, expected {SCHEMA_NAME!r}")
    try:
        report = _converter().structure(values, BenchReport)
    except cattrs.BaseValidationError as error:
        reason = "; ".join(cattrs.transform_error(error)[:3])
        raise _file_error(path, f"does not follow the schema of benchmark reports: {reason}") from error
    require_valid_report(report)
    return report


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as handle:
            data = handle.read(MOST_BYTES + 1)
    except OSError as error:
        raise _file_error(path, f"cannot be read: {error.strerror or error}", "check the path") from error
    if len(data) > MOST_BYTES:
        raise _file_error(path, f"has more than {MOST_BYTES} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _file_error(path, f"is not JSON: {error}") from error


def _converter() -> cattrs.Converter:
    """Take nothing for something else: no text for a number, no missing and no further names."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind, accepted in ((bool, bool), (int, int), (float, (int, float)), (str, str)):
        converter.register_structure_hook(kind, _strict(kind, accepted))
    converter.register_structure_hook_func(lambda kind: kind == dict[int, int], _histogram)
    configure_union_passthrough(int | float | str | bool | None, converter)
    return converter


def _strict(kind: type, accepted: Any) -> Any:
    def structure(value: Any, _: type) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return kind(value)

    return structure


def _histogram(value: Any, _: type) -> dict[int, int]:
    """JSON has no whole numbers for names: they are written as texts."""
    if not isinstance(value, dict) or not all(key.isdecimal() and type(count) is int for key, count in value.items()):
        raise TypeError(f"{value!r} does not count whole numbers")
    return {int(key): count for key, count in value.items()}


def _file_error(path: Path, problem: str, hint: str = "") -> ConfigError:
    return ConfigError(
        f"{path} {problem}",
        field="report",
        value=str(path),
        hint=hint or "give a file that `power bench --json FILE` wrote",
        code="bench.file",
    )
