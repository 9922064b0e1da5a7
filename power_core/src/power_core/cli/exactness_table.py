"""The part of ``power doctor`` that loads a model: how many rows at once have the bits of single rows."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import attrs

from power_core.artifacts.model_files import scan_model
from power_core.artifacts.roles import require_target
from power_core.cli.progress import ProgressView
from power_core.cli.table import format_table
from power_core.exactness.cache import ProbeCache
from power_core.exactness.key import probe_key
from power_core.exactness.survey import Survey, survey_context
from power_core.planning import context_settings, ctx_in_force, model_settings
from power_core.plugins.types import BackendSpec
from power_core.settings import SessionSettings
from power_core.tokens import TapRequest

DEFAULT_DRAFT_MAX = 15


def survey_model(settings: SessionSettings, backend: BackendSpec) -> Survey:
    """Load the target and measure slices of up to ``draft_max`` + 1 rows, 16 when it is not set.

    Raises:
        ArtifactError: the file cannot be used.
        ConfigError: the settings contradict each other or the backend.
        NativeError: the library refuses.
    """
    assert settings.model is not None
    files = scan_model(settings.model)
    require_target(files.header)
    draft_max = settings.draft_max or DEFAULT_DRAFT_MAX
    ctx_tokens = ctx_in_force(settings, files.header, None, [])
    loaded = model_settings(settings, files.path)
    with (
        ProgressView() as progress,
        closing(backend.open_model(loaded, lambda part: progress.update("load", int(part * 1000), 1000))) as model,
    ):
        asked = context_settings(settings, model.info, TapRequest(), draft_max, ctx_tokens)
        asked = attrs.evolve(asked, device_choice=False)  # the table compares logits
        with closing(model.open_context(asked)) as context:
            return survey_context(
                context,
                rows=draft_max + 1,
                n_vocab=model.info.n_vocab,
                cache=ProbeCache(key=probe_key(files, backend.build_key(), loaded, asked, context)),
                on_depth=lambda depth, deepest: progress.update("probe", depth, deepest),
            )


def survey_values(settings: SessionSettings, survey: Survey) -> dict[str, Any]:
    """Return plain values for JSON."""
    return {
        "model": str(settings.model),
        "arithmetic": settings.arithmetic,
        "rows": survey.rows,
        "depths_tokens": list(survey.depths_tokens),
        "widest_rows": survey.widest_rows,
        "largest_difference": survey.largest_difference,
        "cells": [attrs.asdict(cell) for depth in survey.depths_tokens for cell in survey.at_depth(depth).cells],
        "seconds": survey.seconds,
        "not_kept": survey.not_kept,
    }


def survey_text(settings: SessionSettings, survey: Survey) -> str:
    """Return a line per row count and a column per depth: 0 where every bit is equal, else the largest difference."""
    columns = [survey.at_depth(depth) for depth in survey.depths_tokens]
    lines = [
        [f"{rows + 1}", *(_difference(column.cells[rows].difference) for column in columns)]
        for rows in range(survey.rows)
    ]
    lines.append(["W", *(str(column.widest_rows) for column in columns)])
    headers = ("ROWS", *(f"AT {depth}" for depth in survey.depths_tokens))
    kept = f"; not kept: {survey.not_kept}" if survey.not_kept else ""
    return (
        f"{settings.model}, arithmetic {settings.arithmetic}: largest difference of a logit from single rows, by rows\n"
        "evaluated at once and tokens of context before them; 0 where every bit is equal\n"
        f"{format_table(lines, headers)}"
        f"up to {survey.widest_rows} rows have the bits of single rows at every depth; {survey.seconds:.2f} s{kept}\n"
    )


def _difference(value: float) -> str:
    return "0" if value == 0.0 else f"{value:.2g}"
