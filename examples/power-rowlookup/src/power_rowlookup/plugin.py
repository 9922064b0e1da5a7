"""Registers the strategy ``rowlookup`` and the validator of its files; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from power_core.plugins import DrafterContext, PluginInfo, StrategySpec, TargetNeeds, hookimpl

if TYPE_CHECKING:
    from power_core.artifacts import ArtifactValidator, GgufHeader
    from power_core.drafter import Drafter


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Say who we are, and which version of the API this code was written for."""
    return PluginInfo(name="rowlookup", api=(1, 0), summary="Drafts by looking hidden rows up.")


@hookimpl
def power_strategies() -> Iterator[StrategySpec]:
    """Register a strategy that reads a file of its own."""
    yield StrategySpec(
        name="rowlookup",
        summary="Looks hidden rows up, in the sequence and in a learned table.",
        uses_draft_file=True,
        model_backed=True,
        refuse=_refuse,
        needs=_needs,
        most_drafts=_most_drafts,
        has_confidence=lambda target_header, draft_header: False,
        create_drafter=_create_drafter,
    )


@hookimpl
def power_artifact_validators() -> Iterator[ArtifactValidator]:
    """Register the validator."""
    from power_rowlookup.artifact import RowLookupValidator

    yield RowLookupValidator()


def _refuse(target_header: GgufHeader, draft_header: GgufHeader | None) -> str | None:
    from power_rowlookup.artifact import RowLookupValidator

    if draft_header is None:
        return "it needs a table: make one with `python -m power_rowlookup.learn`"
    validator = RowLookupValidator()
    if not validator.matches(draft_header):
        return f"{draft_header.path} is no table of rows"
    reports = (validator.validate(draft_header), validator.validate_pair(target_header, draft_header))
    return next((failure.message for report in reports for failure in report.failures), None)


def _needs(target_header: GgufHeader, draft_header: GgufHeader | None) -> TargetNeeds:
    from power_core.tokens import TapRequest
    from power_rowlookup.table import read_layout

    assert draft_header is not None, "uses_draft_file"
    return TargetNeeds(taps=TapRequest(layers=(read_layout(draft_header).layer,)))


def _most_drafts(target_header: GgufHeader, draft_header: GgufHeader | None) -> int | None:
    from power_rowlookup.table import most_drafts

    return None if draft_header is None else most_drafts(draft_header)


def _create_drafter(context: DrafterContext) -> Drafter:
    from power_core.graph_drafter import GraphDrafter
    from power_rowlookup.drafting import RowLookup
    from power_rowlookup.table import Table

    context.require_api(1, "power-rowlookup")
    assert context.draft_header is not None, "uses_draft_file"
    return GraphDrafter(RowLookup(Table(context.draft_header, context.target_model.info.n_vocab)))
