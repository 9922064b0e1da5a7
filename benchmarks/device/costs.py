"""What drafting and verifying cost at the real widths, and what gain that makes with the seeds' acceptance.

The target is measured with two depths of layers; a layer's cost is the difference, and the cost of all layers follows.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
from random_models import write_drafter, write_target
from sections import PROMPT, Run
from shapes import FULL_DRAFTERS, FULL_TARGET, SMALL_DRAFTERS, SMALL_TARGET, TargetShape

from power_core import open_session
from power_core.bench.costs import measure_row_costs
from power_core.bench.synthetic import AcceptanceProfile, open_synthetic_session, record_truth
from power_core.settings import SessionSettings

MOST_DRAFTS = 15
CONTEXT_TOKENS = 512


@attrs.frozen(kw_only=True)
class SeedFigure:
    """A published figure of the seeds: another card, another model; shown beside, never a gate.

    ``acceptance`` is accepted over drafted.
    """

    spec: str
    draft_max: int
    snapshots: int
    acceptance: float
    gain: float


SEED_FIGURES = (
    SeedFigure(spec="dspark", draft_max=10, snapshots=6, acceptance=0.90873, gain=5.250),
    SeedFigure(spec="dflash2", draft_max=7, snapshots=6, acceptance=0.98230, gain=4.367),
    SeedFigure(spec="mtp", draft_max=7, snapshots=6, acceptance=0.95, gain=5.0),
)


def device_costs(run: Run) -> dict[str, Any]:
    """Cost curve of verification, cost of drafting, and the gain with the seeds' acceptance, measured and scaled."""
    shape = SMALL_TARGET if run.small else FULL_TARGET
    slices = _target_slices(run, shape)
    drafts = {each.kind: write_drafter(run.folder / f"{each.kind}.gguf", each, shape) for each in _drafters(run)}
    curves = {layers: _row_costs_ms(run, path) for layers, path in slices.items()}
    scaled = _scale(curves, shape)
    return {
        "target": attrs.asdict(shape) | {"measured_layers": list(slices), "weights": "random, Q6_K"},
        "drafters": [attrs.asdict(each) | {"weights": "random, Q4_K"} for each in _drafters(run)],
        "verify_ms_by_rows": {str(layers): curve for layers, curve in curves.items()},
        "verify_ms_by_rows_scaled": scaled,
        "gains": [_gain(run, slices[shape.layers], drafts.get(seed.spec), seed, scaled) for seed in SEED_FIGURES],
        "note": "the seeds' figures are of another card and another model; they are no gate",
    }


def profile_for(acceptance: float, draft_max: int) -> AcceptanceProfile:
    """The profile with one probability at every position whose accepted share of the drafts is ``acceptance``."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        share = sum(middle**place for place in range(1, draft_max + 1)) / draft_max
        low, high = (middle, high) if share < acceptance else (low, middle)
    return AcceptanceProfile(probabilities=(low,) * draft_max)


def _target_slices(run: Run, shape: TargetShape) -> dict[int, Path]:
    depths = (shape.layers, 2 * shape.layers)
    return {
        layers: write_target(run.folder / f"target-{layers}.gguf", attrs.evolve(shape, layers=layers))
        for layers in depths
    }


def _drafters(run: Run) -> Any:
    return SMALL_DRAFTERS if run.small else FULL_DRAFTERS


def _settings(run: Run, target: Path, **changes: Any) -> SessionSettings:
    return SessionSettings(model=target, ctx=CONTEXT_TOKENS, **{**run.placement, **changes})


def _row_costs_ms(run: Run, target: Path) -> dict[str, float]:
    settings = _settings(run, target, spec="mtp", draft_max=MOST_DRAFTS, snapshots=MOST_DRAFTS, verify_rows="all")
    with open_session(settings) as session:
        costs = measure_row_costs(session, "target", PROMPT, samples=3 if run.small else 20)
    return {str(cost.rows): cost.median_ns / 1e6 for cost in costs.costs}


def _scale(curves: dict[int, dict[str, float]], shape: TargetShape) -> dict[str, float]:
    """Milliseconds by rows for the real number of layers: the shallow slice and the missing layers' share."""
    shallow, deep = (curves[layers] for layers in sorted(curves))
    steps = shape.real_layers / shape.layers - 1
    return {rows: shallow[rows] + steps * max(deep[rows] - shallow[rows], 0.0) for rows in shallow}


def _gain(run: Run, target: Path, draft: Path | None, seed: SeedFigure, scaled: dict[str, float]) -> dict[str, Any]:
    """Measured decode gain of the slice, and the gain that its parts make with all layers."""
    tokens = 32 if run.small else 256
    common = _settings(run, target, snapshots=seed.snapshots)
    with open_session(attrs.evolve(common, spec="off")) as session:
        truth = record_truth(session, [PROMPT], tokens + seed.draft_max + 1)
        plain = session.generate(PROMPT, max_tokens=tokens).result().report
    settings = attrs.evolve(common, spec=seed.spec, draft=draft, draft_max=seed.draft_max, verify_rows="all")
    profile = profile_for(seed.acceptance, seed.draft_max)
    with closing(open_synthetic_session(settings, truth, profile)) as session:
        session.generate(PROMPT, max_tokens=8).result()
        report = session.generate(PROMPT, max_tokens=tokens).result().report
    draft_ms = report.timings_ns.draft / 1e6 / max(report.rounds, 1)
    round_ms = draft_ms + scaled[str(seed.draft_max + 1)]
    return {
        "strategy": seed.spec,
        "draft_max": seed.draft_max,
        "snapshots": seed.snapshots,
        "synthetic_acceptance": {"asked": seed.acceptance, "reached": report.acceptance_rate},
        "draft_ms_per_round": draft_ms,
        "tokens_per_target_pass": report.tokens_per_target_pass,
        "replays": report.replays,
        "slice_gain": report.tokens_per_second / plain.tokens_per_second,
        "scaled_gain": report.tokens_per_target_pass * scaled["1"] / round_ms,
        "seed_gain": seed.gain,
    }
