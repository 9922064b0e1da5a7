"""Open a session: check the files, choose the strategy, load the target, build the drafter; or leave nothing open."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import attrs

from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.roles import check_target
from power_core.drafter import Drafter
from power_core.errors import PluginContractError, PowerError
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
from power_core.plugins.types import API_VERSION, BackendSpec, DrafterContext, StrategySpec, TargetNeeds
from power_core.session import Session
from power_core.settings import SessionSettings
from power_core.strategies import AUTO, ResolvedStrategy, normalize_strategy_word
from power_core.target import ModelSettings, TargetContext, TargetModel
from power_core.tokens import TapRequest

Progress: TypeAlias = Callable[[str, int, int], None]
Answer = TypeVar("Answer")


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
    choice = _choose(settings, plugins, events)
    with ExitStack() as stack:
        model, context = _load(settings, plugins.backend(), choice, progress, stack)
        drafter = _build_drafter(settings, choice, model, context)
        if drafter is not None:
            stack.callback(drafter.close)
        plan = make_plan(settings, choice.resolved, context, choice.draft_max, events)
        shown = shown_settings(settings, choice.header, plan, context)
        return Session(
            settings=settings,
            plan=attrs.evolve(plan, load_ns=time.perf_counter_ns() - started_ns, shown=shown),
            model=model,
            context=context,
            drafter=drafter,
            taps=bool(choice.needs.taps),
            resources=stack.pop_all(),
        )


@attrs.frozen(kw_only=True)
class _Choice:
    """What runs, decided from settings and headers before anything is loaded."""

    header: GgufHeader
    draft_header: GgufHeader | None
    resolved: ResolvedStrategy
    needs: TargetNeeds
    draft_max: int


def _choose(settings: SessionSettings, plugins: PowerPluginManager, events: list[dict[str, Any]]) -> _Choice:
    header = scan_header(settings.model or _default_model(events))
    check_target(header).raise_first()
    draft_header = None if settings.draft is None else scan_header(settings.draft)
    resolved = plugins.negotiate(settings.spec, header, draft_header)
    if normalize_strategy_word(settings.spec) == AUTO:
        events.append({"event": "auto", "round": 0, "chosen": resolved.name, "refused": dict(resolved.refusals)})
    refuse_unready(settings, resolved)
    needs, most_drafts = TargetNeeds(), None
    if resolved.spec is not None:
        spec = resolved.spec
        needs = _ask(spec, "needs", lambda: spec.needs(header, draft_header))
        most_drafts = _ask(spec, "most_drafts", lambda: spec.most_drafts(header, draft_header))
    return _Choice(
        header=header,
        draft_header=draft_header,
        resolved=resolved,
        needs=needs,
        draft_max=draft_max_in_force(settings, resolved, most_drafts, events),
    )


def _load(
    settings: SessionSettings, backend: BackendSpec, choice: _Choice, progress: Progress | None, stack: ExitStack
) -> tuple[TargetModel, TargetContext]:
    model = backend.open_model(
        ModelSettings(
            path=choice.header.path,
            gpu_layers=settings.gpu_layers,
            load_nextn=choice.needs.nextn_weights,
            arithmetic=settings.arithmetic,
        ),
        None if progress is None else lambda fraction: progress("load", int(fraction * 1000), 1000),
    )
    stack.callback(model.close)
    taps = choice.needs.taps or TapRequest()
    context = model.open_context(context_settings(settings, model.info, taps, choice.draft_max))
    stack.callback(context.close)
    return model, context


def _build_drafter(
    settings: SessionSettings, choice: _Choice, model: TargetModel, context: TargetContext
) -> Drafter | None:
    spec = choice.resolved.spec
    if spec is None:
        return None
    drafter_context = DrafterContext(
        api_version=API_VERSION,
        target_model=model,
        target_context=context,
        target_header=choice.header,
        draft_path=settings.draft,
        draft_header=choice.draft_header,
        draft_max_tokens=choice.draft_max,
        threads=threads_in_force(settings),
        options=strategy_options(settings, choice.resolved),
    )
    return _ask(spec, "create_drafter", lambda: spec.create_drafter(drafter_context))


def _ask(spec: StrategySpec, what: str, call: Callable[[], Answer]) -> Answer:
    """Return a plugin's answer; an error that is no ``PowerError`` becomes the plugin's, with its cause chained."""
    try:
        return call()
    except PowerError:
        raise
    except Exception as error:
        raise PluginContractError(
            f"the plugin of strategy {spec.name!r} failed in `{what}`: {error!r}", hook=what
        ) from error


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
