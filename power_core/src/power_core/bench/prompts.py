"""Sets of prompts in a JSON file: an array of texts, or of objects with ``text`` and a ``name`` or ``file``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from power_core.bench.plan import Prompt
from power_core.errors import PromptError

MOST_BYTES = 67_108_864
NAMES = ("name", "file")


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Return the prompts of a file, in its order; those without a name are numbered.

    Raises:
        PromptError: the file cannot be read or is not of that form.
        ConfigError: a prompt is empty or too long.
    """
    entries = _read_json(path)
    if not isinstance(entries, list) or not entries:
        raise _form_error(path, f"holds {type(entries).__name__} of no prompts, expected an array of at least one")
    return tuple(_prompt(path, number, entry) for number, entry in enumerate(entries, start=1))


def _prompt(path: Path, number: int, entry: Any) -> Prompt:
    if isinstance(entry, str):
        return Prompt(name=f"prompt {number}", text=entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise _form_error(path, f"has at place {number} neither a text nor an object with `text`")
    unknown = entry.keys() - {"text", *NAMES}
    if unknown:
        raise _form_error(
            path, f"has the unknown key {min(unknown)!r} at place {number}, known are text, name and file"
        )
    names = [str(entry[key]) for key in NAMES if key in entry]
    return Prompt(name=names[0] if names else f"prompt {number}", text=entry["text"])


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as handle:
            data = handle.read(MOST_BYTES + 1)
    except OSError as error:
        raise _form_error(path, f"cannot be read: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise _form_error(path, f"has more than {MOST_BYTES} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _form_error(path, f"is not JSON: {error}") from error


def _form_error(path: Path, problem: str) -> PromptError:
    return PromptError(
        f"{path} {problem}",
        field="prompts",
        value=str(path),
        hint='write ["text", ...] or [{"name": "a", "text": "..."}, ...]',
    )
