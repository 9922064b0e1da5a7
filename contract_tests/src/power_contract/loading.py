"""The plugins of a run: the subject's own, by its module, and the installed backends. No other drafter takes part."""

from __future__ import annotations

import importlib
from functools import cache
from importlib import metadata

from power_contract.subject import ContractSubject
from power_core.errors import PluginContractError
from power_core.plugins import StrategySpec
from power_core.plugins.discovery import PluginSource
from power_core.plugins.loading import LoadedPlugin, load_plugin
from power_core.plugins.manager import PowerPluginManager, load_plugins


def load_subject(subject: ContractSubject) -> LoadedPlugin:
    """Return the record of the subject's plugin, loaded anew; what goes wrong stands in its ``error``."""
    source = PluginSource(
        name=subject.plugin,
        distribution=subject.name,
        version=installed_version(subject.name),
        load=lambda: importlib.import_module(subject.plugin),
    )
    return load_plugin(source)


def subject_plugins(subject: ContractSubject) -> PowerPluginManager:
    """Return a manager of the subject's plugin and of every installed backend.

    Raises:
        PowerError: the subject's plugin does not load.
    """
    record = load_subject(subject)
    if record.error is not None:
        raise record.error
    return PowerPluginManager([record, *(each for each in _backends() if each.distribution != subject.name)])


def subject_strategy(subject: ContractSubject) -> StrategySpec:
    """Return the strategy under test.

    Raises:
        PowerError: the plugin does not load, or does not register it.
    """
    record = load_subject(subject)
    if record.error is not None:
        raise record.error
    for spec in record.strategy_specs:
        if spec.name == subject.strategy:
            return spec
    raise PluginContractError(
        f"{subject.plugin} registers {', '.join(record.strategies) or 'no strategy'}, expected {subject.strategy!r}",
        distribution=subject.name,
        hook="power_strategies",
        hint="name the strategy in the ContractSubject as the plugin registers it",
    )


def installed_version(distribution: str) -> str:
    """Return the version of a distribution, ``not installed`` when there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


@cache
def _backends() -> tuple[LoadedPlugin, ...]:
    return tuple(each for each in load_plugins().plugins if each.backends)
