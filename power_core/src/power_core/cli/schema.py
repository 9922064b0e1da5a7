"""``power schema``: the JSON schema of what a command writes."""

from __future__ import annotations

from power_core.cli.console import EXIT_OK, usage_error, write_out
from power_core.json_text import json_text
from power_core.schemas import bench_schema, generate_schema

SCHEMAS = {"generate": generate_schema, "bench": bench_schema}


def run_schema(name: str) -> int:
    """Print a schema.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in SCHEMAS:
        message = f"there is no schema {name!r}, expected one of: {', '.join(SCHEMAS)}"
        raise usage_error(message, command="schema", field="name")
    write_out(json_text(SCHEMAS[name](), indent=1))
    return EXIT_OK
