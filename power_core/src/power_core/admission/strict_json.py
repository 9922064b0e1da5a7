"""A small JSON file from a stranger: bounded, one object, nothing twice, nothing that JSON does not have."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, NoReturn

from power_core.errors import ArtifactFormatError, ArtifactNotFoundError

MAX_SHOWN_CHARACTERS = 80


def read_object(path: Path, max_bytes: int) -> dict[str, Any]:
    """Return the object in a file; never reads more than ``max_bytes``.

    Raises:
        ArtifactNotFoundError: absent, no regular file, or not readable (``admission.unreadable``).
        ArtifactFormatError: longer than ``max_bytes`` (``admission.too_long``), or no JSON object (``admission.json``).
    """
    data = _read_bounded(path, max_bytes)
    try:
        value = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise _no_json(path, "it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise _no_json(path, f"{error.msg}, line {error.lineno}") from error
    except ValueError as error:  # bad UTF-8, endless numbers, and what the two hooks refuse
        raise _no_json(path, str(error)) from error
    if not isinstance(value, dict):
        raise _no_json(path, f"it holds a {type(value).__name__}, expected an object")
    return value


def _read_bounded(path: Path, max_bytes: int) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unreadable(path, "it is no regular file")
        with path.open("rb") as handle:
            data = handle.read(max_bytes + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    if len(data) > max_bytes:
        raise ArtifactFormatError(
            f"{path} is longer than {max_bytes} bytes, no admission manifest is",
            path=str(path),
            check_id="admission.too_long",
            expected=f"at most {max_bytes} bytes",
            hint="remove the file, then admit the draft again with `power admit`",
        )
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the name {key[:MAX_SHOWN_CHARACTERS]!r} occurs twice in one object")
        values[key] = value
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _unreadable(path: Path, reason: str) -> ArtifactNotFoundError:
    return ArtifactNotFoundError(
        f"the admission manifest {path} cannot be read: {reason}",
        path=str(path),
        check_id="admission.unreadable",
        expected="a readable file",
        hint="check the file and its permissions, or admit the draft again with `power admit`",
    )


def _no_json(path: Path, reason: str) -> ArtifactFormatError:
    return ArtifactFormatError(
        f"the admission manifest {path} is no JSON object: {reason}",
        path=str(path),
        check_id="admission.json",
        expected="one JSON object",
        actual=reason,
        hint="the file is damaged: admit the draft again with `power admit --force`",
    )
