"""Settings from the command line and from a TOML file: one table, and where every value in force came from.

Values are judged by the settings classes themselves, so a wrong number is refused in the same words wherever it was
written.
"""

from __future__ import annotations

from power_core.config.resolution import Configuration, is_unicode, resolve
from power_core.config.table import SETTINGS, SWITCH_KEYS, Setting
from power_core.config.toml_file import read_config_file

__all__ = ["SETTINGS", "SWITCH_KEYS", "Configuration", "Setting", "is_unicode", "read_config_file", "resolve"]
