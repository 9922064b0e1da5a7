"""All that a ``plugin.py`` may import: the hook marker, the API version and the types that hooks return.

Importing this package loads pluggy and attrs, nothing heavier; a plugin imports its own drafter inside its factories.
"""

from __future__ import annotations

import pluggy

from power_core.plugins.types import (
    API_VERSION,
    BackendSpec,
    DrafterContext,
    HealthCheck,
    HealthResult,
    PluginInfo,
    StrategySpec,
    TargetNeeds,
)

__all__ = [
    "API_VERSION",
    "BackendSpec",
    "DrafterContext",
    "HealthCheck",
    "HealthResult",
    "PluginInfo",
    "StrategySpec",
    "TargetNeeds",
    "hookimpl",
]

hookimpl = pluggy.HookimplMarker("power")
