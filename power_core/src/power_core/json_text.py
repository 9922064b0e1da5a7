"""JSON as the project writes it: every number is finite, so that every reader can read it."""

from __future__ import annotations

import json
from typing import Any

from power_core.errors import PowerError


def json_text(values: Any, *, indent: int | None = None) -> str:
    """Return plain values as JSON with a newline at its end.

    Raises:
        PowerError: a number is not finite; JSON has no word for it.
    """
    try:
        return json.dumps(values, indent=indent, allow_nan=False) + "\n"
    except ValueError as error:
        raise PowerError(
            f"the values cannot be written as JSON: {error}; every number has to be finite",
            hint="this is a fault of the program; please report it with the command",
            code="json.not_finite",
        ) from error
