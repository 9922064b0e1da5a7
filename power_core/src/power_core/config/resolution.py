"""Which settings are in force: a flag beats the file, the file beats the default, and each remembers its origin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.config.table import BY_FIELD, Setting, SettingsClass
from power_core.config.toml_file import read_config_file
from power_core.errors import ConfigError
from power_core.sampler import SamplingSettings
from power_core.settings import RequestSettings, SessionSettings

DEFAULT_ORIGIN = "default"


@attrs.frozen(kw_only=True)
class Configuration:
    """Settings in force.

    Attributes:
        origins: ``default``, ``flag --name`` or ``file path: key`` for every field of ``SETTINGS``.
    """

    session: SessionSettings
    request: RequestSettings
    origins: Mapping[str, str]

    def value(self, setting: Setting) -> Any:
        """The value in force."""
        owners = {SessionSettings: self.session, RequestSettings: self.request, SamplingSettings: self.request.sampling}
        return getattr(owners[setting.owner], setting.field)


def resolve(flags: Mapping[str, Any], config_file: Path | None = None) -> Configuration:
    """Combine flags, file and defaults.

    Args:
        flags: Values of the flags that were given, by field.
        config_file: TOML file, or None.

    Raises:
        ConfigError: the file cannot be read or holds an unknown key; a value has a wrong type or is out of range.
    """
    values: dict[str, Any] = {}
    origins = dict.fromkeys(BY_FIELD, DEFAULT_ORIGIN)
    if config_file is not None:
        for field, (key, value) in read_config_file(config_file).items():
            values[field] = value
            origins[field] = f"file {config_file}: {key}"
    for field, value in flags.items():
        setting = BY_FIELD[field]
        values[field] = setting.kind.convert(value)
        origins[field] = f"flag {setting.flag}"
    _require_unicode(values, origins)
    try:
        return Configuration(
            session=SessionSettings(**_owned(SessionSettings, values)),
            request=RequestSettings(
                **_owned(RequestSettings, values), sampling=SamplingSettings(**_owned(SamplingSettings, values))
            ),
            origins=origins,
        )
    except ConfigError as error:
        raise _with_origin(error, origins) from error


def _require_unicode(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Bytes of a command line that are not text arrive as lone surrogates, which no tokenizer takes."""
    for field, value in values.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and not is_unicode(text):
                raise ConfigError(
                    f"`{field}` is {text!r}, expected valid Unicode text (set by {origins[field]})",
                    field=field,
                    value=text,
                )


def is_unicode(text: str) -> bool:
    """Tell whether the text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _owned(owner: SettingsClass, values: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in values.items() if BY_FIELD[field].owner is owner}


def _with_origin(error: ConfigError, origins: Mapping[str, str]) -> ConfigError:
    """Say which flag or key set the refused value, and as the next step what to put there."""
    origin = origins.get(error.field, DEFAULT_ORIGIN)
    suffix = "" if origin == DEFAULT_ORIGIN else f" (set by {origin})"
    place = BY_FIELD[error.field].flag if error.field in BY_FIELD else error.field
    return ConfigError(
        f"{error}{suffix}",
        field=error.field,
        value=error.value,
        allowed=error.allowed,
        hint=error.hint or f"give {place} {error.allowed}",
        code=error.code,
    )
