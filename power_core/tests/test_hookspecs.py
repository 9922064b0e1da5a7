import inspect
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from power_core.artifacts.validation import ArtifactValidator, ValidationReport
from power_core.drafter import Drafter, DraftRequest
from power_core.plugins import BackendSpec, HealthCheck, HealthResult, PluginInfo, StrategySpec, TargetNeeds
from power_core.plugins.hookspecs import PowerSpecs
from power_core.plugins.manager import load_plugins

HOOKS = {
    "power_plugin_info": PluginInfo,
    "power_strategies": StrategySpec,
    "power_artifact_validators": ArtifactValidator,
    "power_backends": BackendSpec,
    "power_health_checks": HealthCheck,
}
INFO = HOOKS["power_plugin_info"](name="example", api=(1, 0))


def example(documented):
    """Return the indented block that follows `::` in a docstring."""
    _, found, after = inspect.getdoc(documented).partition("::\n\n")
    assert found, f"{documented.__name__} has no example"
    lines = []
    for line in after.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines))


def load_module(monkeypatch, code, **more):
    module = ModuleType("plugin_from_docstring")
    exec(compile(code, "<docstring>", "exec"), module.__dict__)
    vars(module).update(more)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module, load_plugins({}, [EntryPoint("repeat", module.__name__, "power")])


def test_there_are_five_hooks():
    assert [name for name in vars(PowerSpecs) if not name.startswith("_")] == list(HOOKS)


def test_whole_plugin_of_the_class_docstring_works(monkeypatch):
    code = example(PowerSpecs)
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    _, manager = load_module(monkeypatch, code)
    (plugin,) = manager.plugins
    assert plugin.error is None
    assert (plugin.status, plugin.strategies) == ("loaded", ("repeat",))
    resolved = manager.negotiate("repeat", object(), None)
    assert resolved.spec.needs(object(), None) == TargetNeeds()
    drafter = resolved.spec.create_drafter(SimpleNamespace())
    assert isinstance(drafter, Drafter)
    drafter.begin([1, 2])
    assert drafter.propose(DraftRequest(n_past=2, anchor=7, limit_tokens=3)).tokens == [7, 7, 7]
    drafter.restore(drafter.checkpoint())
    drafter.accept(1)
    drafter.close()


@pytest.mark.parametrize("hook", HOOKS)
def test_example_of_every_hook_loads(hook, monkeypatch):
    from power_core.plugins import hookimpl

    def power_plugin_info():
        return INFO

    more = {} if hook == "power_plugin_info" else {"power_plugin_info": hookimpl(power_plugin_info)}
    module, manager = load_module(monkeypatch, example(getattr(PowerSpecs, hook)), **more)
    (plugin,) = manager.plugins
    assert plugin.error is None
    answer = getattr(module, hook)()
    items = [answer] if hook == "power_plugin_info" else list(answer)
    assert items
    assert all(isinstance(item, HOOKS[hook]) for item in items)


def test_examples_do_what_they_say(monkeypatch):
    load = {hook: load_module(monkeypatch, example(getattr(PowerSpecs, hook)))[0] for hook in HOOKS}
    (spec,) = load["power_strategies"].power_strategies()
    assert spec.refuse(object(), None) == "it needs a draft"
    assert spec.refuse(object(), object()) is None
    (check,) = load["power_health_checks"].power_health_checks()
    assert check.run() == [HealthResult(name="repeat table", status="ok", detail="built in")]
    (validator,) = load["power_artifact_validators"].power_artifact_validators()
    header = SimpleNamespace(architecture="repeat", tensors={}, path=Path("x.gguf"))
    assert validator.matches(header)
    report = validator.validate(header)
    assert isinstance(report, ValidationReport)
    assert not report.ok
