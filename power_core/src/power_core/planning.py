"""What is decided before a session runs: widths, windows, slices, context. Contradictions are refused by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from power_core.artifacts.gguf import GgufHeader
from power_core.compute_placement import processors_of
from power_core.errors import ConfigError, out_of_range
from power_core.exactness.guarantor import Guarantor
from power_core.exactness.stance import TARGET_AUTHORITATIVE, bit_identical
from power_core.scheduling import minimum_batch_rows
from power_core.session import SessionPlan
from power_core.settings import SessionSettings
from power_core.strategies import ResolvedStrategy
from power_core.target import ContextSettings, ModelInfo, ModelSettings, TargetContext
from power_core.tokens import TapRequest

DEFAULT_CTX_TOKENS = 4096
DEFAULT_BATCH_ROWS = 512
DEFAULT_SLICE_ROWS = 8


def draft_max_in_force(
    settings: SessionSettings, resolved: ResolvedStrategy, most_drafts: int | None, events: list[dict[str, Any]]
) -> int:
    """Return K: the user's, else the strategy's own; 0 without a strategy.

    ``most_drafts`` is what the files allow: a larger number of the user's is refused, a larger default clamped with an
    event. ``batch`` must hold a whole block.
    """
    if resolved.spec is None:
        return 0
    draft_max = settings.draft_max or resolved.spec.default_draft_max_tokens
    if most_drafts is not None and draft_max > most_drafts:
        if settings.draft_max is not None:
            raise out_of_range(
                "draft_max", draft_max, f"at most {most_drafts}, which is what {resolved.name} can draft here"
            )
        events.append({"event": "draft_max_clamped", "round": 0, "asked": draft_max, "granted": most_drafts})
        draft_max = most_drafts
    if settings.draft_min > draft_max:
        raise out_of_range("draft_min", settings.draft_min, f"at most draft_max ({draft_max})")
    needed = minimum_batch_rows(draft_max)
    if settings.batch is not None and settings.batch < needed:
        raise out_of_range("batch", settings.batch, f"at least draft_max + 2 ({needed})")
    return draft_max


def ctx_in_force(
    settings: SessionSettings, target: GgufHeader, most_ctx: int | None, events: list[dict[str, Any]]
) -> int:
    """Return the context's length in tokens: the user's, else the default, at most what the target was trained with.

    ``most_ctx`` is what the draft allows: a larger number of the user's is refused, a larger default clamped with an
    event.
    """
    trained: int = target.require(target.arch_key("context_length"))
    ctx_tokens = settings.ctx or min(DEFAULT_CTX_TOKENS, trained)
    if most_ctx is None or ctx_tokens <= most_ctx:
        return ctx_tokens
    if settings.ctx is not None:
        raise ConfigError(
            f"`ctx` is {ctx_tokens:,} tokens, but the draft was trained for {most_ctx:,} positions",
            field="ctx",
            value=ctx_tokens,
            allowed=f"at most {most_ctx}",
            hint=f"use `--ctx {most_ctx}` or less",
        )
    events.append({"event": "ctx_clamped", "round": 0, "asked": ctx_tokens, "granted": most_ctx})
    return most_ctx


def refuse_threshold(settings: SessionSettings, has_confidence: bool) -> None:
    """Refuse ``draft_p_min`` where drafts come without anything to compare with it."""
    if settings.draft_p_min > 0.0 and not has_confidence:
        raise ConfigError(
            f"`draft_p_min` is {settings.draft_p_min!r}, but the draft has no confidence head to compare with it",
            field="draft_p_min",
            value=settings.draft_p_min,
            allowed="0",
            hint="leave `draft_p_min` at 0, or use a draft that has a confidence head",
        )


def refuse_foreign_settings(settings: SessionSettings, resolved: ResolvedStrategy) -> None:
    """Refuse settings that the strategy that runs does not have; nothing is ignored."""
    spec = resolved.spec
    if spec is not None and settings.scheduler not in spec.schedulers:
        allowed = ", ".join(spec.schedulers)
        raise ConfigError(
            f"`scheduler` is {settings.scheduler!r}, but the strategy {resolved.name} runs with {allowed} only",
            field="scheduler",
            value=settings.scheduler,
            allowed=allowed,
            hint=f"use `--scheduler {spec.schedulers[0]}`",
        )
    understood = spec.options if spec is not None else ()
    for name, value in _strategy_settings(settings).items():
        if value is not None and name not in understood:
            raise ConfigError(
                f"`{name}` is set, but the strategy {resolved.name} does not have it",
                field=name,
                value=value,
                hint="leave it unset or choose the strategy that it belongs to",
            )


def model_settings(settings: SessionSettings, path: Path, *, load_nextn: bool = False) -> ModelSettings:
    """Return how the target's file is loaded; the margin guard stands on the fast kernels."""
    return ModelSettings(
        path=path,
        gpu_layers=settings.gpu_layers,
        device=settings.device,
        tensor_placements=settings.override_tensor,
        load_nextn=load_nextn,
        arithmetic="fast" if settings.arithmetic == "guarded" else settings.arithmetic,
    )


def context_settings(
    settings: SessionSettings, info: ModelInfo, taps: TapRequest, draft_max: int, ctx_tokens: int
) -> ContextSettings:
    """Return how the target's context is opened: snapshots for recurrent state, room for one block's logits."""
    if settings.batch is not None and settings.batch > ctx_tokens:
        raise out_of_range("batch", settings.batch, f"at most ctx ({ctx_tokens})")
    snapshots = min(draft_max, settings.snapshots) if info.recurrent else 0
    smallest = minimum_batch_rows(draft_max)
    if ctx_tokens < smallest:
        raise out_of_range("ctx", ctx_tokens, f"at least draft_max + 2 ({smallest})")
    batch_rows = max(settings.batch or min(DEFAULT_BATCH_ROWS, ctx_tokens), smallest)
    _require_ubatch(settings.ubatch, batch_rows, snapshots)
    return ContextSettings(
        ctx_tokens=ctx_tokens,
        batch_rows=batch_rows,
        ubatch_rows=settings.ubatch or batch_rows,
        output_rows=draft_max + 1,
        snapshots=snapshots,
        threads=threads_in_force(settings),
        rows_threads=settings.threads_batch,
        processors=processors_of(settings.cpu_mask),
        kv_type=settings.kv_type,
        device_choice=settings.device_sampling == "on",
        flash_attention=settings.flash_attention,
        taps=taps,
    )


def _require_ubatch(rows: int | None, batch_rows: int, snapshots: int) -> None:
    if rows is None:
        return
    if rows > batch_rows:
        raise out_of_range("ubatch", rows, f"at most batch ({batch_rows})")
    if snapshots and rows < snapshots + 2:
        raise out_of_range(
            "ubatch",
            rows,
            f"at least snapshots + 2 ({snapshots + 2})",
            hint="raise `--ubatch` or lower `--snapshots`",
        )


def threads_in_force(settings: SessionSettings) -> int:
    """Return the threads in force: one per core that this process may use."""
    if settings.threads:
        return settings.threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_plan(
    settings: SessionSettings,
    resolved: ResolvedStrategy,
    context: TargetContext,
    draft_max: int,
    events: list[dict[str, Any]],
) -> SessionPlan:
    """Return slice width, guard and checkpoint rule for the snapshots granted; a smaller grant is an event."""
    asked = min(draft_max, settings.snapshots)
    window = context.snapshots if context.recurrent else draft_max
    granted_less = context.recurrent and window < asked
    if granted_less:
        events.append({"event": "snapshots_clamped", "round": 0, "asked": asked, "granted": window})
    if settings.arithmetic == "fast" and draft_max:
        events.append(
            {"event": "arithmetic", "round": 0, "detail": "fast: verified rows are not computed as single rows are"}
        )
    slice_rows = _slice_rows(settings, draft_max, asked, context.recurrent)
    wide = context.recurrent and slice_rows - 1 > window
    if wide and settings.verify_shape == "fixed":
        raise out_of_range(
            "verify_shape",
            "fixed",
            f"slices of at most {window + 1} rows with it, as {window} snapshots take back; there are {slice_rows}",
            hint=f"use `--verify-rows {window + 1}` or more `--snapshots`",
        )
    if settings.device_sampling == "on" and draft_max:
        detail = "the device chose greedily; its logits were not read, so row counts were not compared"
        events.append({"event": "device_sampling", "round": 0, "detail": detail})
    return SessionPlan(
        strategy=resolved.name,
        draft_max=draft_max,
        slice_rows=slice_rows,
        guard_rows=window if wide and not granted_less else None,
        rollback_tokens=min(asked, window),
        checkpoint_rows=window + 1 if wide and granted_less else None,
        guarantee=bit_identical(1) if draft_max == 0 else TARGET_AUTHORITATIVE,
        events=tuple(events),
    )


def guaranteed_plan(plan: SessionPlan, guarantor: Guarantor) -> SessionPlan:
    """Measure a short context, and return the plan with the width, the guarantee and the events that follow from it."""
    events = list(plan.events)
    stance = guarantor.open(events)
    fits = plan.guard_rows is not None and stance.slice_rows - 1 <= plan.guard_rows
    return attrs.evolve(
        plan,
        slice_rows=stance.slice_rows,
        guard_rows=None if fits else plan.guard_rows,
        guarantee=stance.guarantee,
        probe=guarantor.record(),
        probe_ns=guarantor.probe_ns,
        events=tuple(events),
    )


def _slice_rows(settings: SessionSettings, draft_max: int, snapshots: int, recurrent: bool) -> int:
    """Return N: rows per slice, at most one block, never needing more snapshots than S unless ``all`` was asked for."""
    block_rows = draft_max + 1
    if settings.verify_rows == "all":
        return block_rows
    if settings.verify_rows is None:
        return min(block_rows, snapshots + 1 if recurrent else DEFAULT_SLICE_ROWS)
    rows = int(settings.verify_rows)
    if recurrent and settings.snapshots < min(draft_max, rows - 1):
        raise ConfigError(
            f"`verify_rows` is {rows} and needs {min(draft_max, rows - 1)} snapshots, there are {settings.snapshots}",
            field="verify_rows",
            value=rows,
            allowed=f"1..{settings.snapshots + 1} or all",
            hint="raise `--snapshots`, lower `--verify-rows`, or use `--verify-rows all` with its one exact replay",
        )
    return min(block_rows, rows)


def strategy_options(settings: SessionSettings, resolved: ResolvedStrategy) -> dict[str, Any]:
    """Return the set options that the strategy says it understands."""
    assert resolved.spec is not None
    values = _strategy_settings(settings)
    return {name: values[name] for name in resolved.spec.options if values.get(name) is not None}


def _strategy_settings(settings: SessionSettings) -> dict[str, Any]:
    return {"mtp_fr_vocab_size": settings.mtp_fr_vocab_size, "mtp_fr_map": settings.mtp_fr_map}


def note_missing_gpu(settings: SessionSettings, info: ModelInfo, events: list[dict[str, Any]]) -> None:
    """Say in the report that layers were to go to a GPU and none was there."""
    if settings.gpu_layers != 0 and not info.devices:
        detail = "the backend found no GPU that it can use, so the CPU computes everything; see `power doctor`"
        events.append({"event": "no_gpu", "round": 0, "asked": settings.gpu_layers, "detail": detail})


def shown_settings(
    settings: SessionSettings,
    header: GgufHeader,
    plan: SessionPlan,
    context: TargetContext,
    devices: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what is in force, for the report; ``devices`` are those that hold layers besides the CPU."""
    return {
        "model": header.path.name,
        "architecture": header.architecture,
        "arithmetic": settings.arithmetic,
        "draft_max": plan.draft_max,
        "snapshots": context.snapshots,
        "verify_rows": plan.slice_rows,
        "verify_shape": settings.verify_shape,
        "ctx": context.ctx_tokens,
        "batch": context.batch_rows,
        "ubatch": context.ubatch_rows,
        "threads": threads_in_force(settings),
        "threads_batch": settings.threads_batch or threads_in_force(settings),
        "cpu_mask": settings.cpu_mask,
        "flash_attention": settings.flash_attention,
        "kv_type": settings.kv_type,
        "gpu_layers": settings.gpu_layers,
        "devices": list(devices) or ["CPU"],
        "override_tensor": list(settings.override_tensor),
        "device_sampling": settings.device_sampling,
        "scheduler": settings.scheduler,
    }
