"""Open a session: check the files, choose the strategy, load the target, build the drafter; or leave nothing open."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from power_core.artifacts.gguf import scan_header
from power_core.artifacts.roles import check_target
from power_core.planning import (
    context_settings,
    draft_max_in_force,
    make_plan,
    refuse_unready,
    shown_settings,
    strategy_options,
    threads_in_force,
)
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.plugins.types import API_VERSION, DrafterContext, TargetNeeds
from power_core.session import Session
from power_core.settings import SessionSettings
from power_core.target import ModelSettings
from power_core.tokens import TapRequest

Progress: TypeAlias = Callable[[str, int, int], None]


def open_session(
    settings: SessionSettings | None = None,
    *,
    plugins: PowerPluginManager | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Session:
    """Open a target and its drafter.

    Args:
        settings: What to open.
        plugins: Loaded plugins; None loads the installed ones.
        progress: Called as ``progress("load", done, total)``.
        **changes: Fields of ``settings`` to override: ``open_session(model=path, spec="mtp")``.

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
    resolved = plugins.negotiate(settings.spec, header, draft_header)
    if settings.spec.strip().lower() == "auto":
        events.append({"event": "auto", "round": 0, "chosen": resolved.name, "refused": dict(resolved.refusals)})
    draft_max = draft_max_in_force(settings, resolved)
    refuse_unready(settings, resolved)
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
        context = model.open_context(context_settings(settings, model.info, taps, draft_max))
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
                    threads=threads_in_force(settings),
                    options=strategy_options(settings, resolved),
                )
            )
            stack.callback(drafter.close)
        plan = make_plan(settings, resolved, context, draft_max, events)
        plan = attrs.evolve(
            plan, load_ns=time.perf_counter_ns() - started_ns, shown=shown_settings(settings, header, plan, context)
        )
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
