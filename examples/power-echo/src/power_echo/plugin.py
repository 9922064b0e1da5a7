"""Registers the strategy ``echo``; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, PluginInfo, StrategySpec, TargetNeeds, hookimpl

if TYPE_CHECKING:
    from power_core.drafter import Drafter


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Say who we are, and which version of the API this code was written for."""
    return PluginInfo(name="echo", api=(1, 0), summary="Proposes what followed the last token before.")


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    """Register a strategy that runs on every target."""
    yield StrategySpec(
        name="echo",
        refuse=lambda target_header, draft_header: None,
        needs=lambda target_header, draft_header: TargetNeeds(),
        create_drafter=_create_drafter,
    )


def _create_drafter(context: DrafterContext) -> Drafter:
    from power_echo.drafter import EchoDrafter

    context.require_api(1, "power-echo")
    return EchoDrafter()
