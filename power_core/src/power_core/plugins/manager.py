"""Everything the installed plugins provide, and for everything they fail to provide, the error that says why."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from power_core.errors import ConfigError, PluginConflictError, PowerError
from power_core.plugins.discovery import (
    BACKEND_DISTRIBUTIONS,
    CHOICE_VARIABLE,
    PluginSource,
    choose_sources,
    find_sources,
)
from power_core.plugins.loading import LoadedPlugin, load_plugin, unloaded_record
from power_core.plugins.types import BackendSpec, DrafterContext, HealthCheck, StrategySpec
from power_core.strategies import (
    AUTO,
    OFF,
    CapabilitySet,
    ResolvedStrategy,
    missing_strategy_error,
    negotiate,
    parse_strategy,
    strategy_words,
)

if TYPE_CHECKING:
    from power_core.artifacts.gguf import GgufHeader
    from power_core.artifacts.validation import ArtifactValidator
    from power_core.drafter import Drafter

DEFAULT_BACKEND = "llama.cpp"


class PowerPluginManager:
    """The plugins of one process.

    Building it never fails because of a plugin; asking for what a broken plugin should provide does.

    Attributes:
        plugins: One record per entry point, working or not, by distribution and name.
        unavailable: Strategy words that cannot be used, with the error that asking for them raises.
    """

    def __init__(self, plugins: Sequence[LoadedPlugin]) -> None:
        """Index the records; names that two plugins claim are used by neither."""
        specs = [spec for plugin in plugins for spec in plugin.strategy_specs]
        strategy_conflicts = _conflicts("strategy", _strategy_claims(plugins))
        backend_conflicts = _conflicts("backend", _backend_claims(plugins))
        self.plugins = [_with_conflict(plugin, strategy_conflicts, backend_conflicts) for plugin in plugins]
        self._strategies = {spec.name: spec for spec in specs if spec.name not in strategy_conflicts}
        self._backends = {
            spec.name: spec for plugin in plugins for spec in plugin.backend_specs if spec.name not in backend_conflicts
        }
        self.unavailable: Mapping[str, PowerError] = MappingProxyType(
            _missing(plugins, lambda plugin: plugin.strategies, strategy_words(self._strategies))
            | {
                word: strategy_conflicts[spec.name]
                for spec in specs
                for word in spec.aliases
                if spec.name in strategy_conflicts
            }
            | strategy_conflicts
        )
        self._unavailable_backends: Mapping[str, PowerError] = (
            _missing(plugins, lambda plugin: plugin.backends, self._backends) | backend_conflicts
        )

    def strategies(self) -> dict[str, StrategySpec]:
        """Return the strategies that can be used, by canonical name."""
        return dict(self._strategies)

    def strategy(self, name: str) -> StrategySpec:
        """Return the strategy of that name or alias.

        Raises:
            ConfigError: unknown name; ``auto`` or ``off``, which no plugin provides; left out by ``POWER_PLUGINS``.
            PluginError: its plugin failed to load, or two plugins claim it.
            UnsupportedStrategyError: reserved, or not installed.
        """
        canonical = parse_strategy(name, strategy_words(self._strategies, self.unavailable))
        if canonical in self.unavailable:
            raise self.unavailable[canonical]
        if canonical in self._strategies:
            return self._strategies[canonical]
        if canonical in (AUTO, OFF):
            allowed = ", ".join(self._strategies) or "nothing is installed"
            message = f"strategy {canonical!r} is built in and has no plugin; expected one of: {allowed}"
            raise ConfigError(message, field="spec", value=name, allowed=allowed)
        raise missing_strategy_error(canonical, CapabilitySet(names=frozenset(self._strategies)))

    def with_drafters(self, wrap: Callable[[DrafterContext, Drafter], Drafter]) -> PowerPluginManager:
        """Return the same plugins, except that every drafter they create passes through ``wrap``."""

        def wrapped(spec: StrategySpec) -> StrategySpec:
            return attrs.evolve(spec, create_drafter=lambda context: wrap(context, spec.create_drafter(context)))

        return PowerPluginManager(
            [attrs.evolve(plugin, strategy_specs=tuple(map(wrapped, plugin.strategy_specs))) for plugin in self.plugins]
        )

    def canonical_name(self, requested: str) -> str:
        """Return the canonical name of a strategy, ``auto`` and ``off`` included; it need not be usable.

        Raises:
            ConfigError: unknown name.
        """
        return parse_strategy(requested, strategy_words(self._strategies, self.unavailable))

    def draft_kind(self, requested: str) -> str | None:
        """Return the kind of external draft that a strategy reads: its own name, ``auto`` for any, None for none.

        Raises:
            ConfigError: unknown name.
        """
        canonical = self.canonical_name(requested)
        spec = self._strategies.get(canonical)
        return canonical if canonical == AUTO or (spec is not None and spec.uses_draft_file) else None

    def negotiate(self, requested: str, target_header: GgufHeader, draft_header: GgufHeader | None) -> ResolvedStrategy:
        """Return the strategy to run on these files; see ``power_core.strategies.negotiate``."""
        return negotiate(requested, target_header, draft_header, self._strategies, self.unavailable)

    def backend(self, name: str = DEFAULT_BACKEND) -> BackendSpec:
        """Return a way to run target models.

        Raises:
            ConfigError: no such backend is installed (the hint names the package), or ``POWER_PLUGINS`` leaves it out.
            PluginError: its plugin failed to load, or two plugins claim it.
        """
        if name in self._unavailable_backends:
            raise self._unavailable_backends[name]
        if name in self._backends:
            return self._backends[name]
        installed = ", ".join(sorted(self._backends)) or "none"
        raise ConfigError(
            f"no backend {name!r} is installed; installed backends: {installed}",
            field="backend",
            value=name,
            allowed=installed,
            hint=f"pip install {BACKEND_DISTRIBUTIONS[name]}" if name in BACKEND_DISTRIBUTIONS else "",
            code="config.backend",
        )

    def validators(self) -> list[ArtifactValidator]:
        """Return the artifact validators of every loaded plugin."""
        return [validator for plugin in self.plugins for validator in plugin.validators]

    def health_checks(self) -> list[HealthCheck]:
        """Return the health checks of every loaded plugin."""
        return [check for plugin in self.plugins for check in plugin.health_checks]


def load_plugins(
    env: Mapping[str, str] = os.environ, entry_points: Iterable[EntryPoint] | None = None
) -> PowerPluginManager:
    """Find, choose and load plugins; a broken one is recorded and stops no other.

    Args:
        env: Where ``POWER_PLUGINS`` is read: unset for every plugin, empty for none, else entry-point or distribution
            names, comma-separated.
        entry_points: Use these instead of the installed ones.

    Raises:
        ConfigError: ``POWER_PLUGINS`` names something that is not installed.
    """
    sources = find_sources(entry_points)
    chosen = choose_sources(sources, env.get(CHOICE_VARIABLE))
    return PowerPluginManager(
        [
            load_plugin(source) if source in chosen else unloaded_record(source, "left out", _left_out_error(source))
            for source in sources
        ]
    )


def _strategy_claims(plugins: Iterable[LoadedPlugin]) -> dict[str, list[LoadedPlugin]]:
    claims = defaultdict(list)
    for plugin in plugins:
        for spec in plugin.strategy_specs:
            for word in (spec.name, *spec.aliases):
                claims[word].append(plugin)
    return claims


def _backend_claims(plugins: Iterable[LoadedPlugin]) -> dict[str, list[LoadedPlugin]]:
    claims = defaultdict(list)
    for plugin in plugins:
        for spec in plugin.backend_specs:
            claims[spec.name].append(plugin)
    return claims


def _conflicts(kind: str, claims: Mapping[str, Sequence[LoadedPlugin]]) -> dict[str, PluginConflictError]:
    return {name: _conflict_error(kind, name, owners) for name, owners in claims.items() if len(owners) > 1}


def _conflict_error(kind: str, name: str, owners: Sequence[LoadedPlugin]) -> PluginConflictError:
    titles = " and ".join(f"{owner.distribution} {owner.version} (entry point '{owner.name}')" for owner in owners)
    return PluginConflictError(
        f"{kind} name '{name}' is claimed by {titles}; neither is used",
        distribution=", ".join(owner.distribution for owner in owners),
        version=", ".join(owner.version for owner in owners),
        hint=f"uninstall one of them, or choose with {CHOICE_VARIABLE}",
    )


def _with_conflict(
    plugin: LoadedPlugin,
    strategy_conflicts: Mapping[str, PluginConflictError],
    backend_conflicts: Mapping[str, PluginConflictError],
) -> LoadedPlugin:
    words = [word for spec in plugin.strategy_specs for word in (spec.name, *spec.aliases)]
    errors = [strategy_conflicts[word] for word in words if word in strategy_conflicts]
    errors += [backend_conflicts[spec.name] for spec in plugin.backend_specs if spec.name in backend_conflicts]
    return attrs.evolve(plugin, status="conflict", error=errors[0]) if errors else plugin


def _missing(
    plugins: Iterable[LoadedPlugin], names_of: Callable[[LoadedPlugin], Sequence[str]], provided: Container[str]
) -> dict[str, PowerError]:
    """Return the errors of plugins that were not loaded, by the names that they should provide and nobody else does."""
    not_loaded = [plugin for plugin in plugins if plugin.status in ("failed", "left out")]
    not_loaded.sort(key=lambda plugin: plugin.status == "failed")  # where both are missing, the failure is the news
    return {
        name: plugin.error
        for plugin in not_loaded
        for name in names_of(plugin)
        if plugin.error is not None and name not in provided
    }


def _left_out_error(source: PluginSource) -> ConfigError:
    return ConfigError(
        f"{source.title} is installed but `{CHOICE_VARIABLE}` leaves it out",
        field=CHOICE_VARIABLE,
        hint=f"add {source.distribution} to {CHOICE_VARIABLE}, or unset it",
    )
