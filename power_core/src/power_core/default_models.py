"""What runs when no model is given: the models of an installed package, else a random-weight target.

A package offers models by an entry point of the group ``power.models`` that names a module (power-zoo does).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

import attrs

from power_core.errors import ConfigError, PluginLoadError
from power_core.plugins.manager import PowerPluginManager
from power_core.settings import SessionSettings
from power_core.strategies import AUTO

GROUP = "power.models"


class ModelPackage(Protocol):
    """What the module of an entry point offers.

    Attributes:
        AUTO_DRAFTS: Kinds of drafts, in the order in which ``auto`` takes them.
    """

    AUTO_DRAFTS: Sequence[str]

    def target_path(self) -> Path:
        """Return the target's file."""

    def draft_path(self, kind: str) -> Path | None:
        """Return the file of the draft of a kind, None without one."""


def with_default_models(
    settings: SessionSettings, plugins: PowerPluginManager, events: list[dict[str, Any]]
) -> SessionSettings:
    """Return the settings with a target and, where the strategy reads one and none is given, a draft.

    Raises:
        ConfigError: several packages offer models; unknown strategy.
        PluginLoadError: the package that offers models cannot be imported.
    """
    point = _only_point()
    if point is None:
        from power_core.testing.models import default_target_path

        _tell(events, "a small hybrid target with random weights runs, its text means nothing")
        return attrs.evolve(settings, model=default_target_path())
    package = _load(point)
    draft = settings.draft or _draft(package, plugins.draft_kind(settings.spec), plugins)
    _tell(events, f"the small trained target of {_distribution(point)} runs")
    return attrs.evolve(settings, model=package.target_path(), draft=draft)


def _draft(package: ModelPackage, kind: str | None, plugins: PowerPluginManager) -> Path | None:
    if kind == AUTO:
        readable = {validator.kind for validator in plugins.validators()}
        kind = next((name for name in package.AUTO_DRAFTS if name in readable), None)
    return None if kind is None else package.draft_path(kind)


def _load(point: EntryPoint) -> ModelPackage:
    try:
        package: ModelPackage = point.load()
    except Exception as error:
        raise PluginLoadError(
            f"the models of {_distribution(point)} cannot be found: {error!r}",
            distribution=_distribution(point),
            hint="install it again, or name a model with --model FILE",
        ) from error
    return package


def _only_point() -> EntryPoint | None:
    points = tuple(entry_points(group=GROUP))
    if len(points) > 1:
        listed = ", ".join(sorted(_distribution(point) for point in points))
        raise ConfigError(
            f"{len(points)} installed packages offer models to run by default: {listed}",
            field="model",
            allowed="at most one",
            hint="name a model with --model FILE, or uninstall all but one of them",
        )
    return points[0] if points else None


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _tell(events: list[dict[str, Any]], what: str) -> None:
    events.append({"event": "default_target", "round": 0, "detail": f"no model was given: {what}"})
