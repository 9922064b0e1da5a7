"""Load one plugin: import, handshake, hooks, checks. What goes wrong ends in its record and touches no other plugin."""

from __future__ import annotations

import reprlib
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
import pluggy

from power_core.errors import PluginContractError, PluginError, PluginLoadError, PluginVersionError, PowerError
from power_core.plugins import checks
from power_core.plugins.discovery import PluginSource
from power_core.plugins.hookspecs import PowerSpecs
from power_core.plugins.types import API_VERSION, BackendSpec, HealthCheck, PluginInfo, StrategySpec

if TYPE_CHECKING:
    from power_core.artifacts.validation import ArtifactValidator

Problem: TypeAlias = Callable[[object], "str | None"]
PluginStatus: TypeAlias = Literal["loaded", "failed", "conflict", "left out"]


@attrs.frozen(kw_only=True, eq=False)
class LoadedPlugin:
    """The record of one entry point, whether it works or not.

    Attributes:
        name: Entry-point name.
        distribution: Its distribution.
        version: Version of the distribution.
        status: ``loaded``; ``failed`` (see ``error``); ``conflict``, loaded but some of its names are taken by another
            plugin too; ``left out`` by ``POWER_PLUGINS``, not imported.
        api: API version it was written for; None when it did not get to say.
        summary: Its own sentence.
        error: Why it failed or was left out, or the first of its conflicts; the cause is chained.
        strategies: Canonical names it provides; for a plugin that is not loaded, those it should provide.
        backends: Backend names, likewise.
    """

    name: str
    distribution: str
    version: str
    status: PluginStatus
    api: tuple[int, int] | None = None
    summary: str = ""
    error: PowerError | None = None
    strategies: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    strategy_specs: tuple[StrategySpec, ...] = ()
    backend_specs: tuple[BackendSpec, ...] = ()
    validators: tuple[ArtifactValidator, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()

    def traceback_text(self) -> str:
        """Return the error with its chain of causes and their tracebacks; empty when there is no error."""
        return "".join(traceback.format_exception(self.error)) if self.error else ""


def load_plugin(source: PluginSource) -> LoadedPlugin:
    """Import a plugin, shake hands and collect what it registers; failures are recorded, not raised.

    Raises:
        KeyboardInterrupt: the user interrupted. Nothing else passes, ``SystemExit`` neither.
    """
    info: PluginInfo | None = None
    specs: tuple[StrategySpec, ...] = ()
    try:
        with redirect_stdout(sys.stderr):  # what a plugin prints is no part of a command's output
            hooks = _register(source)
            info = _handshake(hooks, source)
            _require_api(info.api, source)
            _compare_with_specs(hooks, source)
            specs = _strategy_specs(hooks, source)
            return _collect(hooks, source, info, specs)
    except PluginError as error:
        return unloaded_record(source, "failed", error, info, specs)


def unloaded_record(
    source: PluginSource,
    status: PluginStatus,
    error: PowerError,
    info: PluginInfo | None = None,
    specs: Sequence[StrategySpec] = (),
) -> LoadedPlugin:
    """Return the record of a plugin that provides nothing, with the names that it should have provided."""
    return LoadedPlugin(
        name=source.name,
        distribution=source.distribution,
        version=source.version,
        status=status,
        api=info.api if info else None,
        summary=info.summary if info else "",
        error=error,
        strategies=_names(specs) or source.expected_strategies(),
        backends=source.expected_backends(),
    )


def _register(source: PluginSource) -> pluggy.PluginManager:
    """Import the plugin into a hook manager of its own, where no other plugin can wrap, break or delay its hooks."""
    plugin = _contained(source, "import", source.load)
    hooks = pluggy.PluginManager("power")
    _contained(source, "registration", lambda: hooks.register(plugin, source.name))
    return hooks


def _handshake(hooks: pluggy.PluginManager, source: PluginSource) -> PluginInfo:
    """Ask who it is, before its other hooks are compared with ours: a newer API may have other hooks or arguments."""
    hook = "power_plugin_info"
    caller = getattr(hooks.hook, hook, None)
    if caller is None:
        raise _contract_error(source, hook, f"{source.title} does not implement `{hook}`; expected one PluginInfo")
    answers: list[object] = _contained(source, hook, caller)
    if len(answers) > 1:
        raise _contract_error(source, hook, f"`{hook}` of {source.title} gave {len(answers)} answers, expected one")
    info: PluginInfo = _checked(source, hook, answers or [None], checks.info_problem)[0]
    return info


def _require_api(api: tuple[int, int], source: PluginSource) -> None:
    """Same major, and no minor above ours."""
    core_major, core_minor = API_VERSION
    if api[0] == core_major and api[1] <= core_minor:
        return
    outdated = "power-core" if api > API_VERSION else source.distribution
    raise PluginVersionError(
        f"{source.title} was written for API {api[0]}.{api[1]}, this power-core has API {core_major}.{core_minor}; "
        f"expected major {core_major} and minor at most {core_minor}",
        distribution=source.distribution,
        version=source.version,
        hook="power_plugin_info",
        hint=f"pip install --upgrade {outdated}",
    )


def _compare_with_specs(hooks: pluggy.PluginManager, source: PluginSource) -> None:
    try:
        hooks.add_hookspecs(PowerSpecs)
        hooks.check_pending()
    except pluggy.PluginValidationError as cause:
        message = f"{source.title} implements a hook that `PowerSpecs` does not have in this form: {_one_line(cause)}"
        raise _contract_error(source, "PowerSpecs", message) from cause


def _strategy_specs(hooks: pluggy.PluginManager, source: PluginSource) -> tuple[StrategySpec, ...]:
    hook = "power_strategies"
    specs = _call(hooks, source, hook, checks.strategy_problem)
    repeated = checks.repeated_word(specs)
    if repeated:
        message = f"`{hook}` of {source.title} uses {repeated!r} twice, expected every name and alias once"
        raise _contract_error(source, hook, message)
    return specs


def _collect(
    hooks: pluggy.PluginManager, source: PluginSource, info: PluginInfo, specs: tuple[StrategySpec, ...]
) -> LoadedPlugin:
    backends = _call(hooks, source, "power_backends", checks.backend_problem)
    return LoadedPlugin(
        name=source.name,
        distribution=source.distribution,
        version=source.version,
        status="loaded",
        api=info.api,
        summary=info.summary,
        strategies=_names(specs),
        backends=_names(backends),
        strategy_specs=specs,
        backend_specs=backends,
        validators=_call(hooks, source, "power_artifact_validators", checks.validator_problem),
        health_checks=_call(hooks, source, "power_health_checks", checks.health_check_problem),
    )


def _call(hooks: pluggy.PluginManager, source: PluginSource, hook: str, problem: Problem) -> tuple[Any, ...]:
    """Call one hook and check every item. No implementation means no items; None for an answer is an error."""
    caller = getattr(hooks.hook, hook)
    if not caller.get_hookimpls():
        return ()
    answers: list[object] = _contained(source, hook, caller)
    items: list[object] = []
    for answer in answers or [None]:
        if not isinstance(answer, Iterable) or isinstance(answer, str):
            message = (
                f"`{hook}` of {source.title} returned {reprlib.repr(answer)}, expected an iterable as in `PowerSpecs`"
            )
            raise _contract_error(source, hook, message)
        items += _contained(source, hook, partial(list, answer))
    return _checked(source, hook, items, problem)


def _checked(source: PluginSource, hook: str, items: Sequence[object], problem: Problem) -> tuple[Any, ...]:
    """Return the items when each of them is what the hook promises."""
    for item in items:
        complaint = _contained(source, hook, partial(problem, item))
        if complaint:
            message = f"`{hook}` of {source.title} returned {reprlib.repr(item)}, which {complaint}"
            raise _contract_error(source, hook, message)
    return tuple(items)


def _contained(source: PluginSource, stage: str, action: Callable[[], Any]) -> Any:
    """Run a stranger's code; whatever it raises, except KeyboardInterrupt, becomes a PluginLoadError with its cause."""
    try:
        return action()
    except KeyboardInterrupt:
        raise
    except BaseException as cause:  # SystemExit from a plugin must not end the program either
        raise PluginLoadError(
            f"{source.title} failed in {stage}: {_one_line(cause)}",
            distribution=source.distribution,
            version=source.version,
            hook=stage,
            hint=f"reinstall or remove {source.distribution}; `power plugins list` shows every plugin",
        ) from cause


def _contract_error(source: PluginSource, hook: str, message: str) -> PluginContractError:
    return PluginContractError(
        message,
        distribution=source.distribution,
        version=source.version,
        hook=hook,
        hint=f"report this to the authors of {source.distribution}",
    )


def _one_line(cause: BaseException) -> str:
    return " ".join("".join(traceback.format_exception_only(cause)).split())


def _names(specs: Iterable[StrategySpec | BackendSpec]) -> tuple[str, ...]:
    return tuple(spec.name for spec in specs)
