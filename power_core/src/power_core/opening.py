"""Open a session: check the files, choose the strategy, load the target, build the drafter. Nothing half-open is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.roles import check_target
from power_core.errors import ConfigError
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.plugins.types import API_VERSION, DrafterContext, TargetNeeds
from power_core.scheduling import minimum_batch_rows
from power_core.session import Session, SessionPlan
from power_core.settings import SessionSettings
from power_core.strategies import ResolvedStrategy, negotiate
from power_core.target import ContextSettings, ModelInfo, ModelSettings, TargetContext
from power_core.tokens import TapRequest

Progress: TypeAlias = Callable[[str, int, int], None]

DEFAULT_CTX_TOKENS = 4096
DEFAULT_SLICE_ROWS = 8


def open_session(
    settings: SessionSettings | None = None,
    *,
    plugins: PowerPluginManager | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Session:
    """Open a target and its drafter.

    Args:
        settings: What to open; keyword arguments override its fields (``open_session(model=path, spec="mtp")``).
        plugins: Loaded plugins; None loads the installed ones.
        progress: Called as ``progress("load", done, total)``.

    Raises:
        ArtifactError: a file is absent, damaged or not of its kind.
        ConfigError: settings contradict each other or the model.
        UnsupportedStrategyError: the strategy cannot run on these files; no other one is used instead.
        NativeError: the library is missing or refuses.
    """
    settings = _merge(settings or SessionSettings(), changes)
    started_ns = time.perf_counter_ns()
    events: list[dict[str, Any]] = []
    plugins = plugins or load_plugins()
    model_path = settings.model or _default_model(events)
    header = scan_header(model_path)
    check_target(header).raise_first()
    draft_header = None if settings.draft is None else scan_header(settings.draft)
    resolved = negotiate(settings.spec, header, draft_header, plugins)
    draft_max = _draft_max(settings, resolved)
    _refuse_unready(settings, resolved)
    needs = resolved.spec.needs(header, draft_header) if resolved.spec else TargetNeeds()
    with ExitStack() as stack:
        model = plugins.backend().open_model(
            ModelSettings(
                path=model_path,
                gpu_layers=settings.gpu_layers,
                load_nextn=needs.nextn_weights,
                arithmetic=settings.arithmetic,
            ),
            None if progress is None else lambda fraction: progress("load", int(fraction * 1000), 1000),
        )
        stack.callback(model.close)
        taps = needs.taps or TapRequest()
        context = model.open_context(_context_settings(settings, model.info, taps, draft_max))
        stack.callback(context.close)
        drafter = None
        if resolved.spec is not None:
            drafter = resolved.spec.create_drafter(
                DrafterContext(
                    api_version=API_VERSION,
                    target_model=model,
                    target_context=context,
                    target_header=header,
                    draft_path=settings.draft,
                    draft_header=draft_header,
                    draft_max_tokens=draft_max,
                    threads=settings.threads,
                    options=_options(settings, resolved),
                )
            )
            stack.callback(drafter.close)
        plan = _plan(settings, resolved, context, draft_max, events)
        plan = attrs.evolve(plan, load_ns=time.perf_counter_ns() - started_ns, shown=_shown(settings, header, plan, context))
        return Session(
            settings=settings,
            plan=plan,
            model=model,
            context=context,
            drafter=drafter,
            taps=bool(taps),
            resources=stack.pop_all(),
        )


def _merge(settings: SessionSettings, changes: dict[str, Any]) -> SessionSettings:
    for name in ("model", "draft"):
        if isinstance(changes.get(name), str):
            changes[name] = Path(changes[name])
    return attrs.evolve(settings, **changes) if changes else settings


def _default_model(events: list[dict[str, Any]]) -> Path:
    from power_core.testing.models import default_target_path

    path = default_target_path()
    events.append(
        {
            "event": "default_target",
            "round": 0,
            "detail": "no model was given: a small hybrid target with random weights runs, its text means nothing",
        }
    )
    return path


def _draft_max(settings: SessionSettings, resolved: ResolvedStrategy) -> int:
    if resolved.spec is None:
        return 0
    draft_max = settings.draft_max or resolved.spec.default_draft_max_tokens
    if settings.draft_min > draft_max:
        raise ConfigError(
            f"`draft_min` is {settings.draft_min}, expected at most draft_max ({draft_max})",
            field="draft_min",
            value=settings.draft_min,
            allowed=f"0..{draft_max}",
        )
    needed = minimum_batch_rows(draft_max)
    if settings.batch < needed:
        raise ConfigError(
            f"`batch` is {settings.batch}, {resolved.name} with draft_max {draft_max} needs at least {needed}",
            field="batch",
            value=settings.batch,
            allowed=f"{needed} or more",
        )
    return draft_max


def _refuse_unready(settings: SessionSettings, resolved: ResolvedStrategy) -> None:
    if settings.scheduler != "fixed":
        raise ConfigError(
            f"`scheduler` is {settings.scheduler!r}, which this version does not have yet",
            field="scheduler",
            value=settings.scheduler,
            allowed="fixed",
            hint="use `--scheduler fixed`",
        )
    if settings.mtp_fr_vocab_size is not None and resolved.name != "mtp":
        raise ConfigError(
            f"`mtp_fr_vocab_size` applies to the strategy mtp only, {resolved.name} runs",
            field="mtp_fr_vocab_size",
            value=settings.mtp_fr_vocab_size,
            hint="leave it unset or choose `--spec mtp`",
        )


def _context_settings(
    settings: SessionSettings, info: ModelInfo, taps: TapRequest, draft_max: int
) -> ContextSettings:
    ctx_tokens = settings.ctx or min(DEFAULT_CTX_TOKENS, info.n_ctx_train_tokens)
    if settings.batch > ctx_tokens and settings.ctx is not None and settings.batch != attrs.fields(SessionSettings).batch.default:
        raise ConfigError(
            f"`batch` is {settings.batch}, expected at most ctx ({ctx_tokens})",
            field="batch",
            value=settings.batch,
            allowed=f"1..{ctx_tokens}",
        )
    snapshots = min(draft_max, settings.snapshots) if info.recurrent else 0
    return ContextSettings(
        ctx_tokens=ctx_tokens,
        batch_rows=max(min(settings.batch, ctx_tokens), minimum_batch_rows(draft_max), snapshots + 2),
        snapshots=snapshots,
        threads=settings.threads,
        flash_attention=settings.flash_attention,
        taps=taps,
    )


def _plan(
    settings: SessionSettings,
    resolved: ResolvedStrategy,
    context: TargetContext,
    draft_max: int,
    events: list[dict[str, Any]],
) -> SessionPlan:
    asked = min(draft_max, settings.snapshots)
    window = context.snapshots if context.recurrent else draft_max
    granted_less = context.recurrent and window < asked
    if granted_less:
        events.append({"event": "snapshots_clamped", "round": 0, "asked": asked, "granted": window})
    slice_rows = _slice_rows(settings, draft_max, asked, context.recurrent)
    wide = context.recurrent and slice_rows - 1 > window
    return SessionPlan(
        strategy=resolved.name,
        draft_max=draft_max,
        slice_rows=slice_rows,
        guard_rows=window if wide and not granted_less else None,
        checkpoint_rows=window + 1 if wide and granted_less else None,
        admitted=None if settings.draft is None else False,
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
            f"`verify_rows` is {rows}, which may reject {min(draft_max, rows - 1)} rows; `snapshots` is {settings.snapshots}",
            field="verify_rows",
            value=rows,
            allowed=f"1..{settings.snapshots + 1} or all",
            hint="raise `--snapshots`, lower `--verify-rows`, or use `--verify-rows all` with its one exact replay",
        )
    return min(block_rows, rows)


def _options(settings: SessionSettings, resolved: ResolvedStrategy) -> dict[str, Any]:
    values = {"mtp_fr_vocab_size": settings.mtp_fr_vocab_size}
    assert resolved.spec is not None
    return {name: values[name] for name in resolved.spec.options if values.get(name) is not None}


def _shown(
    settings: SessionSettings, header: GgufHeader, plan: SessionPlan, context: TargetContext
) -> dict[str, Any]:
    return {
        "model": header.path.name,
        "architecture": header.architecture,
        "arithmetic": settings.arithmetic,
        "draft_max": plan.draft_max,
        "snapshots": context.snapshots,
        "verify_rows": plan.slice_rows,
        "ctx": context.ctx_tokens,
        "batch": context.batch_rows,
        "threads": settings.threads,
        "flash_attention": settings.flash_attention,
        "gpu_layers": settings.gpu_layers,
        "scheduler": settings.scheduler,
    }


