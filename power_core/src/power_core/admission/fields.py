"""What the fields of a manifest may hold: validators for attrs, with the value and what was expected in each error."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import attrs

MAX_TEXT_CHARACTERS = 2_000
MAX_SHOWN_CHARACTERS = 200
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def text(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """Any text that a line can show."""
    if not value or value != value.strip() or not value.isprintable() or len(value) > MAX_TEXT_CHARACTERS:
        raise _wrong(attribute, value, f"1 to {MAX_TEXT_CHARACTERS} printable characters, no space at either end")


def file_name(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """A name that stays inside its folder."""
    if value in (".", "..") or "/" in value or "\\" in value:
        raise _wrong(attribute, value, "a file's name without a folder")


def sha256(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """A digest as ``hashlib`` prints it."""
    if _SHA256.fullmatch(value) is None:
        raise _wrong(attribute, value, "64 lower-case hex digits")


def kind(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """The name of a strategy."""
    if _KIND.fullmatch(value) is None:
        raise _wrong(attribute, value, "lower-case letters and digits, with single hyphens between")


def positive(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    """A count or a size."""
    if not 1 <= value < 2**63:
        raise _wrong(attribute, value, "a whole number of at least 1")


def utc_time(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    """A time in ``TIME_FORMAT``."""
    try:
        written = datetime.strptime(value, TIME_FORMAT).replace(tzinfo=UTC).strftime(TIME_FORMAT)
    except ValueError:
        written = ""
    if written != value:
        raise _wrong(attribute, value, "a UTC time such as 2026-01-31T12:00:00Z")


def shown(value: object) -> str:
    """Return a value of a manifest as an error shows it, never long."""
    return repr(value)[:MAX_SHOWN_CHARACTERS]


def _wrong(attribute: attrs.Attribute[Any], value: object, expected: str) -> ValueError:
    return ValueError(f"{attribute.name} is {shown(value)}, expected {expected}")
