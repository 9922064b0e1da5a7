"""Registers the strategy ``dflash2`` and the validator of its drafts; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from power_core.plugins import PluginInfo, StrategySpec, hookimpl
from power_dflash2.config import DEFAULT_DRAFT_MAX_TOKENS, DISTRIBUTION, STRATEGY, SUMMARY

if TYPE_CHECKING:
    from power_core.artifacts import ArtifactValidator, DraftValidator


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Say who we are."""
    return PluginInfo(name=STRATEGY, api=(1, 0), summary=SUMMARY)


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    """Register the strategy."""
    from power_dflash2.graph import confidence
    from power_native import block_strategy

    yield block_strategy(
        name=STRATEGY,
        aliases=("dflash-2", "dflash_2"),
        distribution=DISTRIBUTION,
        summary=SUMMARY,
        default_draft_max_tokens=DEFAULT_DRAFT_MAX_TOKENS,
        validator=_validator,
        confidence=confidence,
        schedulers=("fixed",),
    )


@hookimpl
def power_artifact_validators() -> Iterator[ArtifactValidator]:
    """Register the validator."""
    yield _validator()


def _validator() -> DraftValidator:
    from power_dflash2.artifact import VALIDATOR

    return VALIDATOR
