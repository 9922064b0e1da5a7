"""Settings in a TOML file: one key per setting, no tables."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from power_core.config.table import ADAPTIVE_KEY, BY_FIELD, BY_KEY, SWITCH_KEYS
from power_core.errors import ConfigError

MAX_FILE_BYTES = 1_048_576

_TOML_NAMES = {bool: "boolean", int: "integer", float: "float", str: "string", list: "array", dict: "table"}
_TOML_ARTICLES = {int: "an", str: "a"}


def read_config_file(path: Path) -> dict[str, tuple[str, Any]]:
    """Return ``field -> (key, value)`` for the keys of a TOML file. Relative paths count from the file's folder.

    Raises:
        ConfigError: see ``resolve``.
    """
    found: dict[str, tuple[str, Any]] = {}
    for key, value in _load_toml(path).items():
        field, converted = _read_key(path, key, value)
        if field is None:
            continue
        if field in found:
            raise _file_error(path, f"`{found[field][0]}` and `{key}` set the same thing", field=key, hint="keep one")
        if isinstance(converted, Path):
            _require_file_name(path, key, value)
            converted = path.parent / converted
        found[field] = (key, converted)
    return found


def _read_key(path: Path, key: str, value: Any) -> tuple[str | None, Any]:
    if key in SWITCH_KEYS:
        _require_type(path, key, value, (bool,), "a boolean")
        return _read_switch_key(path, key, value)
    if key not in BY_KEY:
        raise _unknown_key(path, key, value)
    setting = BY_KEY[key]
    _require_type(path, key, value, setting.kind.toml_types, setting.kind.expected)
    for item in value if isinstance(value, list) else ():
        expected = f"{_TOML_ARTICLES[setting.kind.item_type]} {_TOML_NAMES[setting.kind.item_type]}"
        _require_type(path, f"{key}[]", item, (setting.kind.item_type,), expected)
    return setting.field, setting.kind.convert(value)


def _read_switch_key(path: Path, key: str, value: bool) -> tuple[str | None, Any]:
    if key == ADAPTIVE_KEY:
        return "scheduler", "adaptive" if value else "fixed"
    if not value:
        raise _file_error(
            path,
            f"`{key}` is false, expected true: chained drafts cannot be switched off here",
            field=key,
            value=value,
            allowed="true",
            hint="remove the key, or limit the drafts with `spec_draft_max`",
        )
    return None, None


def _load_toml(path: Path) -> dict[str, Any]:
    data = _read_bounded(path)
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise _file_error(path, f"is not UTF-8 text (byte {error.start})", hint="save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:  # ValueError: also an integer with thousands of digits
        raise _file_error(path, f"is not valid TOML: {error}", hint="write one `key = value` per line") from error


def _read_bounded(path: Path) -> bytes:
    if not path.is_file():
        found = "is a directory" if path.is_dir() else "is not a file" if path.exists() else "does not exist"
        raise _file_error(path, f"{found}, expected a TOML file", hint="check the path after --config")
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _file_error(
            path, f"cannot be read: {error.strerror}", hint="check the path and its permissions"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise _file_error(path, f"has more than {MAX_FILE_BYTES} bytes, expected a short TOML file")
    return data


def _require_type(path: Path, key: str, value: Any, types: tuple[type, ...], expected: str) -> None:
    if type(value) in types:
        return
    found = _TOML_NAMES.get(type(value), type(value).__name__)
    shown = "" if isinstance(value, dict | list) else f" ({value!r})"
    raise _file_error(
        path,
        f"`{key}` is of type {found}{shown}, expected {expected}",
        field=key,
        value=value,
        allowed=expected,
        hint=f"write the value of `{key}` as {expected}",
    )


def _require_file_name(path: Path, key: str, value: str) -> None:
    if value:
        return
    raise _file_error(
        path,
        f"`{key}` is empty (''), expected the path of a file",
        field=key,
        value=value,
        allowed="the path of a file",
        hint=f"write a path, or remove `{key}`",
    )


def _unknown_key(path: Path, key: str, value: object) -> ConfigError:
    if isinstance(value, dict):
        return _file_error(
            path,
            f"`[{key}]` is a table; settings stand at the top level",
            field=key,
            value=key,
            hint="remove the table's header and keep its lines",
        )
    known = {**dict.fromkeys(SWITCH_KEYS), **BY_KEY}
    words = {**{field: setting.key for field, setting in BY_FIELD.items()}, **{name: name for name in known}}
    nearest = difflib.get_close_matches(key.lower().replace("-", "_"), words, n=1, cutoff=0.0)[0]
    return _file_error(
        path,
        f"`{key}` is not a known key; the nearest is `{words[nearest]}`",
        field=key,
        allowed=", ".join(known),
        hint="`power generate --help` lists the settings, docs/cli.md their keys",
    )


def _file_error(
    path: Path, message: str, *, field: str = "config", value: object = None, allowed: str = "", hint: str = ""
) -> ConfigError:
    return ConfigError(f"{path}: {message}", field=field, value=value, allowed=allowed, hint=hint, code="config.file")
