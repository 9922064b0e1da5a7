"""Open a session: check the files, choose the strategy, load the target, build the drafter; or leave nothing open."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import attrs

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.model_files import ModelFiles, scan_model
from power_core.artifacts.roles import require_target
from power_core.default_models import with_default_models
from power_core.draft_choice import DraftChoice, choose_draft, explain_found, measure_draft
from power_core.drafter import Drafter
from power_core.errors import PluginContractError, PowerError
from power_core.exactness.cache import ProbeCache
from power_core.exactness.guarantor import Guarantor
from power_core.exactness.key import probe_key
from power_core.planning import (
    context_settings,
    ctx_in_force,
    draft_max_in_force,
    guaranteed_plan,
    make_plan,
    model_settings,
    note_missing_gpu,
    refuse_foreign_settings,
    refuse_threshold,
    shown_settings,
    strategy_options,
    threads_in_force,
)
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.plugins.types import API_VERSION, BackendSpec, DrafterContext, StrategySpec, TargetNeeds
from power_core.report import DraftRecord
from power_core.session import Session, SessionPlan
from power_core.settings import SessionSettings
from power_core.strategies import AUTO, MTP, ResolvedStrategy, normalize_strategy_word
from power_core.target import ContextSettings, ModelSettings, TargetContext, TargetModel
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
        progress: Called as ``progress(phase, done, total)``; the phases are ``hash draft`` and ``hash target``,
            while a draft and what it was admitted for are measured, and ``load``.
        **changes: Fields of ``settings`` to override: ``open_session(model=path, spec="mtp")``.

    Raises:
        ArtifactError: a file is absent, damaged, not of its kind, or not the one that was admitted.
        ConfigError: settings contradict each other or the model.
        UnsupportedStrategyError: the strategy cannot run on these files; no other one is used instead.
        NativeError: the library is missing or refuses.
    """
    settings = _merge(settings or SessionSettings(), changes)
    started_ns = time.perf_counter_ns()
    events: list[dict[str, Any]] = []
    plugins = plugins or load_plugins()
    if settings.model is None:
        settings = with_default_models(settings, plugins, events)
    choice = _choose(settings, plugins, progress, events)
    with ExitStack() as stack:
        backend = plugins.backend()
        target = _load(settings, backend, choice, progress, stack)
        model, context = target.model, target.context
        with choice.explained():
            drafter = _build_drafter(settings, choice, model, context)
        if drafter is not None:
            stack.callback(drafter.close)
        choice.require_unchanged()
        note_missing_gpu(settings, model.info, events)
        plan = make_plan(settings, choice.resolved, context, choice.draft_max, events)
        guarantor = None
        if drafter is not None and settings.device_sampling == "off":
            guarantor = _new_guarantor(settings, backend, choice.target, plan, target)
            plan = guaranteed_plan(plan, guarantor)
        shown = shown_settings(settings, choice.header, plan, context, model.info.devices)
        if facts := getattr(drafter, "facts", {}):
            shown["drafter"] = dict(facts)
        return Session(
            settings=settings,
            plan=attrs.evolve(plan, draft=choice.record, load_ns=time.perf_counter_ns() - started_ns, shown=shown),
            model=model,
            context=context,
            drafter=drafter,
            taps=bool(choice.needs.taps),
            guarantor=guarantor,
            resources=stack.pop_all(),
        )


@attrs.frozen(kw_only=True)
class _Choice:
    """What runs, decided from settings, headers and digests before anything is loaded."""

    target: ModelFiles
    draft: DraftChoice | None
    record: DraftRecord | None
    resolved: ResolvedStrategy
    needs: TargetNeeds
    draft_max: int
    ctx_tokens: int

    @property
    def header(self) -> GgufHeader:
        return self.target.header

    def explained(self) -> AbstractContextManager[None]:
        """Errors about a draft that the user did not name say how it was found."""
        return explain_found(self.draft)

    def require_unchanged(self) -> None:
        """Notice files that were replaced between their checks and their loading; without a draft nothing is bound."""
        if self.draft is not None:
            self.target.require_unchanged()
            self.draft.files.require_unchanged()


def _choose(
    settings: SessionSettings, plugins: PowerPluginManager, progress: Progress | None, events: list[dict[str, Any]]
) -> _Choice:
    """Decide, cheapest checks first: headers, then what strategies say, then digests."""
    assert settings.model is not None, "with_default_models"
    target = scan_model(settings.model)
    require_target(target.header)
    on_hash = None if progress is None else lambda role, done, total: progress(f"hash {role}", done, total)
    draft = choose_draft(settings, target, plugins, events, on_hash)
    header, draft_header = target.header, None if draft is None else draft.files.header
    with explain_found(draft):
        resolved = plugins.negotiate(settings.spec, header, draft_header)
    if normalize_strategy_word(settings.spec) == AUTO:
        events.append(_auto_event(resolved, draft))
    refuse_foreign_settings(settings, resolved)
    with explain_found(draft):
        limits = _ask_limits(resolved.spec, header, draft_header)
        if draft is not None and limits.needs.nextn_weights:
            raise _two_mechanisms(resolved.name)
        draft_max = draft_max_in_force(settings, resolved, limits.most_drafts, events)
        ctx_tokens = ctx_in_force(settings, header, limits.most_ctx, events)
        refuse_threshold(settings, limits.has_confidence)
        record = None if draft is None else measure_draft(draft, target, on_hash)
    return _Choice(
        target=target,
        draft=draft,
        record=record,
        resolved=resolved,
        needs=limits.needs,
        draft_max=draft_max,
        ctx_tokens=ctx_tokens,
    )


@attrs.frozen(kw_only=True)
class _Limits:
    """What a strategy says about the files, asked before anything is loaded; the defaults are those of ``off``."""

    needs: TargetNeeds = attrs.field(factory=TargetNeeds)
    most_drafts: int | None = None
    most_ctx: int | None = None
    has_confidence: bool = True


def _ask_limits(spec: StrategySpec | None, target: GgufHeader, draft: GgufHeader | None) -> _Limits:
    if spec is None:
        return _Limits()
    return _Limits(
        needs=_ask(spec, "needs", lambda: spec.needs(target, draft)),
        most_drafts=_ask(spec, "most_drafts", lambda: spec.most_drafts(target, draft)),
        most_ctx=_ask(spec, "most_ctx", lambda: spec.most_ctx(target, draft)),
        has_confidence=_ask(spec, "has_confidence", lambda: spec.has_confidence(target, draft)),
    )


def _auto_event(resolved: ResolvedStrategy, draft: DraftChoice | None) -> dict[str, Any]:
    if draft is not None:
        reason = draft.reason
    elif resolved.name == MTP:
        reason = "no draft beside the target is admitted for it; its own file holds prediction heads"
    else:
        reason = "no draft beside the target is admitted for it, and its own file drafts nothing"
    return {
        "event": "auto",
        "round": 0,
        "chosen": resolved.name,
        "reason": reason,
        "refused": dict(resolved.refusals),
    }


def _two_mechanisms(strategy: str) -> PluginContractError:
    return PluginContractError(
        f"strategy {strategy!r} reads a draft file and wants the target's prediction heads too, expected one of them",
        hook="needs",
        hint="report this to the plugin's authors; two ways of drafting are never loaded together",
    )


@attrs.frozen(kw_only=True)
class _Target:
    """The open target and the settings that opened it."""

    model_settings: ModelSettings
    context_settings: ContextSettings
    model: TargetModel
    context: TargetContext


def _load(
    settings: SessionSettings, backend: BackendSpec, choice: _Choice, progress: Progress | None, stack: ExitStack
) -> _Target:
    for_model = model_settings(settings, choice.header.path, load_nextn=choice.needs.nextn_weights)
    model = backend.open_model(
        for_model,
        None if progress is None else lambda fraction: progress("load", int(fraction * 1000), 1000),
    )
    stack.callback(model.close)
    taps = choice.needs.taps or TapRequest()
    for_context = context_settings(settings, model.info, taps, choice.draft_max, choice.ctx_tokens)
    context = model.open_context(for_context)
    stack.callback(context.close)
    return _Target(model_settings=for_model, context_settings=for_context, model=model, context=context)


def _new_guarantor(
    settings: SessionSettings, backend: BackendSpec, files: ModelFiles, plan: SessionPlan, target: _Target
) -> Guarantor:
    key = probe_key(files, backend.build_key(), target.model_settings, target.context_settings, target.context)
    return Guarantor(
        context=target.context,
        arithmetic=settings.arithmetic,
        slice_rows=plan.slice_rows,
        block_rows=plan.draft_max + 1,
        n_vocab=target.model.info.n_vocab,
        cache=ProbeCache(key=key),
    )


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
        draft_path=None if choice.draft is None else choice.draft.files.path,
        draft_header=None if choice.draft is None else choice.draft.files.header,
        draft_max_tokens=choice.draft_max,
        draft_p_min=settings.draft_p_min,
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
    for name in ("model", "draft", "mtp_fr_map"):
        if isinstance(changes.get(name), str):
            changes[name] = Path(changes[name])
    return attrs.evolve(settings, **changes) if changes else settings
