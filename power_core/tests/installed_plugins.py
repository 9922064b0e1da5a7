"""Installed plugins that exist for one test: modules and metadata laid down in an empty folder."""

import textwrap

from power_core.plugins.manager import load_plugins

HEADER = """
from power_core.plugins import *

def spec(name, **changes):
    values = dict(
        name=name, refuse=lambda t, d: None, needs=lambda t, d: TargetNeeds(), create_drafter=lambda context: None
    )
    return StrategySpec(**(values | changes))
"""
INFO = """
@hookimpl
def power_plugin_info():
    return PluginInfo(name="x", api=(1, 0))
"""


def install(site, distribution, body, *, entry="", version="1.0", info=INFO):
    """Lay down a module and the metadata of an installed distribution that registers it."""
    entry = entry or distribution.removeprefix("power-")
    module = f"plugin_{distribution}_{entry}".replace("-", "_").replace(".", "_")
    (site / f"{module}.py").write_text(HEADER + info + textwrap.dedent(body), encoding="utf-8")
    metadata = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", "utf-8")
    with (metadata / "entry_points.txt").open("a", encoding="utf-8") as file:
        file.write(f"[power]\n{entry} = {module}\n")
    return metadata


def strategies(*names):
    specs = ", ".join(f"spec({name!r})" for name in names)
    return f"""
    @hookimpl
    def power_strategies():
        return [{specs}]
    """


def info(answer):
    return f"@hookimpl\ndef power_plugin_info():\n    return {answer}\n"


def load(**env):
    return load_plugins(env)


def record(manager, name):
    (found,) = [plugin for plugin in manager.plugins if plugin.name == name]
    return found


def assert_only_good_works(manager, name="bad"):
    """The plugin `good` works although the other one does not."""
    assert set(manager.strategies()) == {"good"}
    assert record(manager, "good").status == "loaded"
    failed = record(manager, name)
    assert failed.status == "failed"
    return failed.error
