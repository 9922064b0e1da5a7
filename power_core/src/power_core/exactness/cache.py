"""Measurements on disk, one JSON file per key: a model is measured once, not once per start.

A file that cannot be read, or that is not what was written, counts as absent: the rows are measured again. A folder
that cannot be written costs time, not correctness, and is told.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.cache_dir import cache_subdir
from power_core.errors import ConfigError
from power_core.exactness.probe import ProbeCell, ProbeTable
from power_core.json_text import json_text
from power_core.whole_file import whole_file

SCHEMA = 1
FOLDER = "probes"


@attrs.frozen(kw_only=True)
class ProbeCache:
    """The measurements of one key; without a key nothing is kept."""

    key: Mapping[str, Any] | None

    def load(self) -> ProbeTable:
        """Return what was measured under this key, an empty table for a file that is absent or damaged."""
        if self.key is None:
            return ProbeTable()
        try:
            values = json.loads(self._path().read_text(encoding="utf-8"))
            return _table(values, dict(self.key))
        except (OSError, ConfigError, ValueError, KeyError, TypeError):
            return ProbeTable()

    def store(self, table: ProbeTable) -> str | None:
        """Add a table to the file; return why the folder cannot be written, None when it was or nothing is kept.

        The file is replaced in one step, so a reader sees an old table or a new one. Of two writers at the same moment
        one may lose its cells; they are measured again when they are needed.
        """
        if self.key is None:
            return None
        cells = self.load().with_cells(table.cells).cells
        values = {"schema": SCHEMA, "key": dict(self.key), "cells": [attrs.asdict(cell) for cell in cells]}
        try:
            with whole_file(self._path()) as partial:
                partial.write_text(json_text(values, indent=1), encoding="utf-8")
        except (OSError, ConfigError) as error:
            return str(error)
        return None

    def _path(self) -> Path:
        text = json.dumps({"schema": SCHEMA, **(self.key or {})}, sort_keys=True)
        return cache_subdir(FOLDER) / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _table(values: Any, key: dict[str, Any]) -> ProbeTable:
    if values["schema"] != SCHEMA or values["key"] != key:
        raise ValueError("another key")
    return ProbeTable().with_cells(_cell(**cell) for cell in values["cells"])


def _cell(depth_tokens: Any, rows: Any, difference: Any) -> ProbeCell:
    sound = isinstance(depth_tokens, int) and isinstance(rows, int) and isinstance(difference, float)
    if not sound or depth_tokens < 0 or rows < 1 or not (math.isfinite(difference) and difference >= 0.0):
        raise ValueError("not a cell")
    return ProbeCell(depth_tokens=depth_tokens, rows=rows, difference=difference)
