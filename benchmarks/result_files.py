"""Results of a benchmark that goes on where it was stopped: one JSON file, replaced at once, a cell a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from power_core.whole_file import whole_file


def load_results(path: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results so far; the header and empty cells when there are none, or those of another header."""
    if path.is_file():
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if {key: results.get(key) for key in header} == dict(header):
            return results
    return {**header, "cells": {}}


def save_results(path: Path, results: Mapping[str, Any], levels: int) -> None:
    """Replace the file; what lies ``levels`` mappings deep takes one line."""
    text = _text(results, levels, "")
    with whole_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def _text(value: Any, levels: int, indent: str) -> str:
    if not levels or not isinstance(value, Mapping) or not value:
        return json.dumps(value, allow_nan=False)
    inner = indent + " "
    lines = [f"{inner}{json.dumps(key)}: {_text(found, levels - 1, inner)}" for key, found in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
