"""Where the project keeps files it can rebuild: built libraries, generated models, downloaded sources."""

from __future__ import annotations

import os
from pathlib import Path

from power_core.errors import ConfigError


def cache_dir() -> Path:
    """Return the user's cache folder for this project; it need not exist yet.

    ``POWER_CACHE_DIR`` wins; then ``XDG_CACHE_HOME/power`` (ignored when relative, as its specification asks); then
    ``~/.cache/power``. An empty variable counts as unset.

    Raises:
        ConfigError: no variable is set and the home folder is unknown.
    """
    chosen = os.environ.get("POWER_CACHE_DIR")
    xdg = os.environ.get("XDG_CACHE_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        if xdg and Path(xdg).is_absolute():
            return Path(xdg) / "power"
        return Path.home() / ".cache" / "power"
    except RuntimeError as error:
        raise ConfigError(
            "the home folder is unknown, so there is no place for cached files",
            field="POWER_CACHE_DIR",
            allowed="a folder that can be written",
            hint="set POWER_CACHE_DIR to a folder",
        ) from error


def cache_subdir(name: str) -> Path:
    """Return the folder ``name`` inside the cache folder, made if absent.

    Raises:
        ConfigError: the folder cannot be made.
    """
    folder = cache_dir() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the cache folder {str(folder)!r} cannot be made: {error.strerror}",
            field="POWER_CACHE_DIR",
            value=str(folder),
            allowed="a folder that can be written",
            hint="set POWER_CACHE_DIR to a folder you can write to",
        ) from error
    return folder
