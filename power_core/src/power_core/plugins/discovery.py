"""Find the entry points of group ``power`` and choose among them; imports none of them.

Distributions are read one by one, so that broken metadata of one is a record of its own and hides no other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import metadata
from types import MappingProxyType
from typing import NoReturn

import attrs

from power_core.errors import ConfigError
from power_core.strategies import RESERVED_STRATEGIES, STRATEGY_DISTRIBUTIONS, normalize_strategy_word

GROUP = "power"
CHOICE_VARIABLE = "POWER_PLUGINS"
BACKEND_DISTRIBUTIONS: Mapping[str, str] = MappingProxyType({"llama.cpp": "power-native"})

_UNKNOWN = "unknown"


@attrs.frozen(kw_only=True, eq=False)
class PluginSource:
    """An entry point that was found but not imported.

    Attributes:
        name: Entry-point name.
        distribution: Name of the distribution that declares it, ``unknown`` when its metadata does not say.
        version: Version of that distribution, ``unknown`` likewise.
        load: Import and return the plugin object; may raise anything.
    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object]

    def answers_to(self, name: str) -> bool:
        """Tell whether ``name`` is its entry-point or distribution name, spelled in any way that packaging allows."""
        return _normalize(name) in (_normalize(self.name), _normalize(self.distribution))

    @property
    def title(self) -> str:
        """Distribution, version and entry point, as error messages name it."""
        return f"{self.distribution} {self.version} (entry point '{self.name}')"

    def expected_strategies(self) -> tuple[str, ...]:
        """Strategies it should provide, as far as its names tell; needed when it cannot be asked.

        The project's own distributions are known; any other may provide a strategy of its entry point's name.
        """
        return self._expected(STRATEGY_DISTRIBUTIONS)

    def expected_backends(self) -> tuple[str, ...]:
        """Backends it should provide, likewise."""
        return self._expected(BACKEND_DISTRIBUTIONS)

    def _expected(self, providers: Mapping[str, str]) -> tuple[str, ...]:
        distribution = _normalize(self.distribution)
        if distribution in (*STRATEGY_DISTRIBUTIONS.values(), *BACKEND_DISTRIBUTIONS.values()):
            return tuple(name for name, provider in providers.items() if provider == distribution)
        word = normalize_strategy_word(self.name)
        return () if word in RESERVED_STRATEGIES else (word,)


def find_sources(entry_points: Iterable[metadata.EntryPoint] | None = None) -> list[PluginSource]:
    """Return the plugins that are installed, by distribution and entry-point name.

    Args:
        entry_points: Use these instead of the installed ones.
    """
    if entry_points is None:
        sources = _installed_sources()
    else:
        sources = [_to_source(point, point.dist) for point in entry_points]
    return sorted(sources, key=lambda source: (_normalize(source.distribution), source.name))


def choose_sources(sources: Sequence[PluginSource], choice: str | None) -> list[PluginSource]:
    """Return the plugins to load.

    Args:
        sources: What is installed.
        choice: Value of ``POWER_PLUGINS``: None for all, empty for none, else entry-point or distribution names,
            comma-separated.

    Raises:
        ConfigError: a name in ``choice`` is empty or fits nothing that is installed.
    """
    if choice is None:
        return list(sources)
    names = [name.strip() for name in choice.split(",")] if choice.strip() else []
    for name in names:
        if not any(source.answers_to(name) for source in sources):
            raise _unknown_choice(name, choice, sources)
    return [source for source in sources if any(source.answers_to(name) for name in names)]


def _installed_sources() -> list[PluginSource]:
    sources: list[PluginSource] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        try:
            found = _sources_of(distribution)
        except Exception as cause:  # noqa: BLE001 - unreadable metadata of one distribution must not hide the others
            name = _name_of(distribution)
            found = [PluginSource(name=name, distribution=name, version=_UNKNOWN, load=partial(_raise, cause))]
        name = _normalize(found[0].distribution) if found else _UNKNOWN
        if name not in seen:  # a second copy of a distribution, later on the path, is never imported
            sources += found
            seen.add(name)
    return sources


def _sources_of(distribution: metadata.Distribution) -> list[PluginSource]:
    if f"[{GROUP}]" not in (distribution.read_text("entry_points.txt") or ""):
        return []
    return [_to_source(point, distribution) for point in distribution.entry_points.select(group=GROUP)]


def _to_source(point: metadata.EntryPoint, distribution: metadata.Distribution | None) -> PluginSource:
    if distribution is None:
        return PluginSource(name=point.name, distribution=_UNKNOWN, version=_UNKNOWN, load=point.load)
    name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    if not name or not version:
        raise ValueError(f"its metadata has Name {name!r} and Version {version!r}, expected both")
    return PluginSource(name=point.name, distribution=name, version=version, load=point.load)


def _name_of(distribution: metadata.Distribution) -> str:
    try:
        return distribution.metadata["Name"] or _UNKNOWN
    except Exception:  # noqa: BLE001 - only asked for when the metadata is broken; the caller records why
        return _UNKNOWN


def _raise(cause: Exception) -> NoReturn:
    raise cause


def _unknown_choice(name: str, choice: str, sources: Sequence[PluginSource]) -> ConfigError:
    installed = sorted({known for source in sources for known in (source.name, source.distribution)} - {_UNKNOWN})
    nearest = difflib.get_close_matches(name, installed, n=1)
    listing = ", ".join(installed) or "nothing"
    return ConfigError(
        f"`{CHOICE_VARIABLE}` is {choice!r}; no plugin is called {name!r}, installed: {listing}",
        field=CHOICE_VARIABLE,
        value=choice,
        allowed=listing,
        hint=f"did you mean '{nearest[0]}'?" if nearest else f"unset {CHOICE_VARIABLE} to use every plugin",
    )


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
