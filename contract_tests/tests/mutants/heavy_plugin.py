"""A plugin module that loads numpy when it is imported. Its strategy is power-ngram's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from power_core.plugins import PluginInfo, StrategySpec, hookimpl

TABLE = np.zeros(1)


@hookimpl
def power_plugin_info() -> PluginInfo:
    return PluginInfo(name="heavy", api=(1, 0))


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    from power_ngram.plugin import power_strategies as original

    return original()
