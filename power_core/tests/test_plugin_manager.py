"""Loading plugins: what is found and recorded, and that a broken plugin stops no other."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path

import pytest
from installed_plugins import assert_only_good_works, install, load, record, strategies

from power_core.errors import PluginContractError, PluginError, PluginLoadError
from power_core.plugins.manager import load_plugins

FAKE_PLUGIN = Path(__file__).parent / "data" / "fake-plugin"


def test_nothing_installed(site):
    manager = load()
    assert manager.plugins == []
    assert manager.strategies() == {}
    assert manager.validators() == []
    assert manager.health_checks() == []


def test_committed_distribution_registers_everything(site, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FAKE_PLUGIN), *sys.path])
    manager = load()
    (plugin,) = manager.plugins
    assert (plugin.name, plugin.distribution, plugin.version) == ("fake", "power-fake", "1.2.0")
    assert (plugin.status, plugin.api, plugin.error) == ("loaded", (1, 0), None)
    assert plugin.summary == "Implements every hook."
    assert plugin.strategies == ("fake-a", "fake-b")
    assert plugin.traceback_text() == ""
    assert manager.strategy(" FAKE_A ") is manager.strategies()["fake-a"]
    assert manager.backend("fake-backend").name == "fake-backend"
    assert [validator.kind for validator in manager.validators()] == ["fake"]
    assert [check.name for check in manager.health_checks()] == ["fake"]
    assert manager.negotiate("fa", object(), None).spec is manager.strategy("fake-a")


def test_entry_points_may_be_given(site, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FAKE_PLUGIN), *sys.path])
    install(site, "power-good", strategies("good"))
    points = PathDistribution(FAKE_PLUGIN / "power_fake-1.2.0.dist-info").entry_points
    assert [plugin.distribution for plugin in load_plugins({}, points).plugins] == ["power-fake"]
    bare = EntryPoint("bare", "power_fake_plugin", "power")
    assert [plugin.distribution for plugin in load_plugins({}, [bare]).plugins] == ["unknown"]


def test_process_environment_is_the_default(site, monkeypatch):
    install(site, "power-good", strategies("good"))
    monkeypatch.setenv("POWER_PLUGINS", "")
    assert load_plugins().strategies() == {}
    monkeypatch.delenv("POWER_PLUGINS")
    assert set(load_plugins().strategies()) == {"good"}


def test_generator_is_welcome_and_asked_once(site):
    install(
        site,
        "power-good",
        """
        calls = []
        @hookimpl
        def power_strategies():
            calls.append(1)
            yield spec("good")
            yield spec("better", aliases=("best",))
        """,
    )
    manager = load()
    assert set(manager.strategies()) == {"good", "better"}
    assert manager.strategy("best").name == "better"
    assert sys.modules["plugin_power_good_good"].calls == [1]


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        ("raise ImportError('no such library')", PluginLoadError, "no such library"),
        ("import a_module_that_is_absent", PluginLoadError, "a_module_that_is_absent"),
        ("raise SystemExit(3)", PluginLoadError, "SystemExit"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", PluginLoadError, "Odd: odd"),
        ("class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute", PluginLoadError, "Mute"),
        ("def broken(:", PluginLoadError, "SyntaxError"),
        ("@hookimpl\ndef power_strategies():\n    raise SystemExit", PluginLoadError, "power_strategies"),
        ("@hookimpl\ndef power_strategies():\n    yield spec('x')\n    1 / 0", PluginLoadError, "ZeroDivisionError"),
        ("@hookimpl\ndef power_strategies():\n    return None", PluginContractError, "None"),
        ("@hookimpl\ndef power_strategies():\n    return spec('x')", PluginContractError, "expected an iterable"),
        ("@hookimpl\ndef power_strategies():\n    return 'x'", PluginContractError, "expected an iterable"),
        (
            "@hookimpl\ndef power_strategies():\n    return ['x']",
            PluginContractError,
            "has type str, expected StrategySpec",
        ),
        ("@hookimpl\ndef power_backends():\n    return [1]", PluginContractError, "expected BackendSpec"),
        ("@hookimpl\ndef power_health_checks():\n    return [1]", PluginContractError, "expected HealthCheck"),
        ("@hookimpl\ndef power_artifact_validators():\n    return [1]", PluginContractError, "no text `kind`"),
        ("@hookimpl\ndef power_strategy():\n    return []", PluginContractError, "power_strategy"),
        ("@hookimpl\ndef power_strategies(config):\n    return []", PluginContractError, "config"),
    ],
)
def test_broken_plugin_is_recorded_and_stops_no_other(site, body, error, text):
    install(site, "power-bad", body)
    install(site, "power-good", strategies("good"))
    manager = load()
    failure = assert_only_good_works(manager)
    assert type(failure) is error
    assert text in str(failure)
    assert "power-bad 1.0 (entry point 'bad')" in str(failure)
    assert "\n" not in str(failure)
    assert (failure.distribution, failure.version) == ("power-bad", "1.0")
    assert type(failure).__name__ in record(manager, "bad").traceback_text()


def test_cause_and_traceback_are_kept(site):
    install(site, "power-bad", "def deep():\n    raise OSError('disk')\ndeep()")
    manager = load()
    failed = record(manager, "bad")
    assert isinstance(failed.error.__cause__, OSError)
    assert "in deep" in failed.traceback_text()
    with pytest.raises(PluginLoadError) as caught:
        manager.strategy("bad")
    assert caught.value is failed.error
    assert isinstance(caught.value.__cause__, OSError)


def test_keyboard_interrupt_passes(site):
    install(site, "power-bad", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load()


@pytest.mark.parametrize(
    ("metadata", "entry_points"),
    [
        (b"Metadata-Version: 2.1\nName: power-bad\nVersion: 1.0\n", b"[power]\nno equals sign\n"),
        (b"Metadata-Version: 2.1\nName: power-bad\nVersion: 1.0\n", b"[power]\nbad = \xff\xfe\n"),
        (b"", b"[power]\nbad = plugin\n"),
        (b"Metadata-Version: 2.1\nName: power-bad\n", b"[power]\nbad = plugin\n"),
    ],
)
def test_broken_metadata_is_a_record_of_its_own(site, metadata, entry_points):
    install(site, "power-good", strategies("good"))
    folder = site / "power_bad-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(metadata)
    (folder / "entry_points.txt").write_bytes(entry_points)
    manager = load()
    assert set(manager.strategies()) == {"good"}
    (failed,) = [plugin for plugin in manager.plugins if plugin.status == "failed"]
    assert isinstance(failed.error, PluginLoadError)
    assert failed.distribution in ("power-bad", "unknown")


def test_entry_point_of_an_absent_module_or_attribute(site):
    metadata = install(site, "power-bad", "")
    (metadata / "entry_points.txt").write_text(
        "[power]\nmod = plugin_absent\nattr = plugin_power_bad_bad:absent\n", "utf-8"
    )
    manager = load()
    assert [type(plugin.error) for plugin in manager.plugins] == [PluginLoadError, PluginLoadError]


def test_hostile_plugin_object_stays_alone(site):
    body = """
    class Hostile:
        __hash__ = None
        def __eq__(self, other): raise RuntimeError("eq")
        @property
        def power_strategies(self): raise RuntimeError("property")
    hostile = Hostile()
    """
    metadata = install(site, "power-bad", body)
    (metadata / "entry_points.txt").write_text("[power]\nbad = plugin_power_bad_bad:hostile\n", "utf-8")
    install(site, "power-good", strategies("good"))
    assert isinstance(assert_only_good_works(load()), PluginError)


def test_wrapper_of_one_plugin_does_not_touch_another(site):
    install(
        site,
        "power-bad",
        """
        @hookimpl(wrapper=True, tryfirst=True)
        def power_strategies():
            yield
            return []
        """,
    )
    install(site, "power-good", strategies("good"))
    assert_only_good_works(load())


def test_first_copy_on_the_path_is_the_one_that_counts(site, tmp_path_factory, monkeypatch):
    second = tmp_path_factory.mktemp("second")
    install(site, "power-good", strategies("good"))
    install(second, "power-good", strategies("other"), version="0.1")
    monkeypatch.setattr(sys, "path", [*sys.path, str(second)])
    assert [(plugin.version, plugin.status) for plugin in load().plugins] == [("1.0", "loaded")]


def test_records_are_ordered_by_distribution_and_entry_point(site):
    for distribution, entry in (("power-b", "z"), ("power-b", "a"), ("power-a", "m")):
        install(site, distribution, "", entry=entry)
    assert [plugin.name for plugin in load().plugins] == ["m", "a", "z"]


@pytest.mark.parametrize("module", ["power_core.plugins", "power_core.plugins.manager", "power_core.strategies"])
def test_import_is_light(module):
    code = (
        f"import sys, {module}; print(*[m for m in ('numpy', 'gguf', 'typer', 'rich', 'jinja2') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == ""
