import os
import subprocess
import sys
import sysconfig
import textwrap
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path

import pytest

from power_core.errors import (
    ConfigError,
    PluginConflictError,
    PluginContractError,
    PluginError,
    PluginLoadError,
    PluginVersionError,
    UnsupportedStrategyError,
)
from power_core.plugins import API_VERSION
from power_core.plugins.manager import load_plugins

FAKE_PLUGIN = Path(__file__).parent / "data" / "fake-plugin"

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


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An import path with the standard library and an empty folder for distributions."""
    before = set(sys.modules)
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in standard if path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("plugin_") or name == "power_fake_plugin":
            del sys.modules[name]


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
    ("change", "text"),
    [
        ("name='Upper'", "kebab-case"),
        ("name=''", "kebab-case"),
        ("name=3", "kebab-case"),
        ("name='auto'", "reserved"),
        ("name='off'", "reserved"),
        ("name='draft-model'", "reserved"),
        ("name='lookup'", "alias of the built-in strategy 'prompt-lookup'"),
        ("aliases=('mtp',)", "belongs to the built-in strategy 'mtp'"),
        ("aliases=('true',)", "belongs to the built-in strategy 'prompt-lookup'"),
        ("aliases=('auto',)", "belongs to the built-in strategy 'auto'"),
        ("aliases=('Up',)", "lower-case"),
        ("aliases=['up']", "tuple of strings"),
        ("aliases=('x',)", "twice"),
        ("default_draft_max_tokens=0", "from 1 to 64"),
        ("default_draft_max_tokens=65", "from 1 to 64"),
        ("default_draft_max_tokens=True", "from 1 to 64"),
        ("uses_draft_file=1", "True or False"),
        ("model_backed=None", "True or False"),
        ("options='abc'", "tuple of strings"),
        ("refuse=None", "has refuse None, expected a callable"),
        ("needs=None", "has needs None, expected a callable"),
        ("create_drafter=None", "has create_drafter None, expected a callable"),
    ],
)
def test_strategy_fields_are_checked(site, change, text):
    install(
        site, "power-bad", f"@hookimpl\ndef power_strategies():\n    return [spec(**(dict(name='x') | dict({change})))]"
    )
    install(site, "power-good", strategies("good"))
    failure = assert_only_good_works(load())
    assert type(failure) is PluginContractError
    assert text in str(failure)


@pytest.mark.parametrize(
    "item",
    [
        "BackendSpec(name='', open_model=print)",
        "BackendSpec(name='b', open_model=1)",
    ],
)
def test_backend_fields_are_checked(site, item):
    install(site, "power-bad", f"@hookimpl\ndef power_backends():\n    return [{item}]")
    assert type(record(load(), "bad").error) is PluginContractError


@pytest.mark.parametrize("item", ["HealthCheck(name='', run=print)", "HealthCheck(name='h', run=1)"])
def test_health_check_fields_are_checked(site, item):
    install(site, "power-bad", f"@hookimpl\ndef power_health_checks():\n    return [{item}]")
    assert type(record(load(), "bad").error) is PluginContractError


def test_built_in_aliases_may_be_repeated_by_their_own_strategy(site):
    install(
        site,
        "power-mtp",
        "@hookimpl\ndef power_strategies():\n    return [spec('mtp', aliases=('multi-token-prediction',))]",
    )
    assert load().strategy("multi-token-prediction").name == "mtp"


def info(answer):
    return f"@hookimpl\ndef power_plugin_info():\n    return {answer}\n"


@pytest.mark.parametrize(
    ("handshake", "text"),
    [
        ("", "does not implement `power_plugin_info`"),
        (info("None"), "has type NoneType, expected PluginInfo"),
        (info("[PluginInfo(name='x', api=(1, 0))]"), "has type list, expected PluginInfo"),
        (info("PluginInfo(name='', api=(1, 0))"), "has name ''"),
        (info("PluginInfo(name='x', api=(1,))"), "has api (1,)"),
        (info("PluginInfo(name='x', api='1.0')"), "has api '1.0'"),
        (info("PluginInfo(name='x', api=(1, -1))"), "has api (1, -1)"),
        (
            INFO + "@hookimpl(specname='power_plugin_info')\ndef second():\n    return power_plugin_info()\n",
            "2 answers",
        ),
    ],
)
def test_handshake_is_required_and_checked(site, handshake, text):
    install(site, "power-bad", strategies("bad"), info=handshake)
    install(site, "power-good", strategies("good"))
    failure = assert_only_good_works(load())
    assert type(failure) is PluginContractError
    assert text in str(failure)


@pytest.mark.parametrize(
    ("api", "upgrade"),
    [
        ((API_VERSION[0], API_VERSION[1] + 1), "power-core"),
        ((API_VERSION[0] + 1, 0), "power-core"),
        ((API_VERSION[0] - 1, 9), "power-bad"),
    ],
)
def test_version_is_judged_before_any_other_hook(site, api, upgrade):
    body = """
    calls = []
    @hookimpl
    def power_strategies(an_argument_of_another_version):
        calls.append(1)
    @hookimpl
    def power_hook_of_another_version():
        calls.append(1)
    """
    install(site, "power-bad", body, version="3.4", info=info(f"PluginInfo(name='x', api={api}, summary='s')"))
    install(site, "power-good", strategies("good"))
    manager = load()
    failure = assert_only_good_works(manager)
    assert type(failure) is PluginVersionError
    for text in (f"API {api[0]}.{api[1]},", f"API {API_VERSION[0]}.{API_VERSION[1]};", "power-bad 3.4"):
        assert text in str(failure)
    assert failure.hint == f"pip install --upgrade {upgrade}"
    assert (record(manager, "bad").api, record(manager, "bad").summary) == (api, "s")
    assert sys.modules["plugin_power_bad_bad"].calls == []


@pytest.mark.parametrize(
    ("distribution", "entry", "asked"),
    [
        ("power-mtp", "mtp", ["mtp", "multi_token_prediction"]),
        ("power-ngram", "ngram", ["lookup", "ngram-context"]),
        ("Power_NGram", "whatever", ["prompt-lookup", "context"]),
        ("power-dspark", "dspark", ["dspark"]),
        ("power-eagle", "Eagle", ["eagle", "EAGLE"]),
    ],
)
def test_asking_for_a_strategy_of_a_failed_plugin_raises_its_error(site, distribution, entry, asked):
    install(site, distribution, "raise OSError('library missing')", entry=entry)
    manager = load()
    failed = record(manager, entry)
    for name in asked:
        with pytest.raises(PluginLoadError) as caught:
            manager.strategy(name)
        assert caught.value is failed.error
        with pytest.raises(PluginLoadError):
            manager.negotiate(name, object(), None)
    assert manager.negotiate("auto", object(), None).refusals[failed.strategies[0]] == str(failed.error)
    assert manager.negotiate("off", object(), None).name == "off"


def test_failure_in_a_late_hook_still_tells_which_strategies_are_gone(site):
    install(
        site, "power-late", strategies("sooner") + "\n    @hookimpl\n    def power_backends():\n        raise OSError"
    )
    manager = load()
    assert record(manager, "late").strategies == ("sooner",)
    assert manager.strategies() == {}
    with pytest.raises(PluginLoadError):
        manager.strategy("sooner")


@pytest.mark.parametrize("entry", ["off", "auto", "draft-model"])
def test_failed_plugin_cannot_take_a_reserved_word_away(site, entry):
    install(site, "power-odd", "raise OSError", entry=entry)
    assert load().negotiate("off", object(), None).name == "off"
    assert load().negotiate("auto", object(), None).name == "off"


def test_failed_plugin_does_not_hide_a_working_name_or_alias(site):
    body = "@hookimpl\ndef power_strategies():\n    return [spec('good', aliases=('nice',))]"
    install(site, "power-good", body)
    install(site, "power-bad", "raise OSError", entry="good")
    install(site, "power-worse", "raise OSError", entry="nice")
    manager = load()
    assert manager.strategy("good").name == "good"
    assert manager.strategy("nice").name == "good"


def test_two_distributions_with_one_name_lose_it_both(site):
    install(site, "power-one", strategies("shared", "only-one"))
    install(site, "power-two", strategies("shared", "only-two"), version="2.0")
    manager = load()
    assert set(manager.strategies()) == {"only-one", "only-two"}
    for ask in (manager.strategy, lambda name: manager.negotiate(name, object(), None)):
        with pytest.raises(PluginConflictError) as caught:
            ask("shared")
        for text in ("'shared'", "power-one 1.0", "power-two 2.0"):
            assert text in str(caught.value)
    for name in ("one", "two"):
        assert record(manager, name).status == "conflict"
        assert record(manager, name).error is caught.value


def test_two_entry_points_of_one_distribution_conflict_too(site):
    install(site, "power-one", strategies("shared"), entry="a")
    install(site, "power-one", strategies("shared"), entry="b")
    with pytest.raises(PluginConflictError, match=r"entry point 'a'.*entry point 'b'"):
        load().strategy("shared")


def test_conflicting_alias_is_unusable_and_the_names_stay(site):
    for name in ("one", "two"):
        install(
            site, f"power-{name}", f"@hookimpl\ndef power_strategies():\n    return [spec('{name}', aliases=('both',))]"
        )
    manager = load()
    assert set(manager.strategies()) == {"one", "two"}
    with pytest.raises(PluginConflictError):
        manager.strategy("both")
    with pytest.raises(PluginConflictError):
        manager.negotiate("both", object(), None)


def test_alias_equal_to_a_foreign_name_makes_that_name_unusable(site):
    install(site, "power-one", "@hookimpl\ndef power_strategies():\n    return [spec('one', aliases=('uno',))]")
    install(site, "power-two", "@hookimpl\ndef power_strategies():\n    return [spec('two', aliases=('one',))]")
    manager = load()
    assert set(manager.strategies()) == {"two"}
    for name in ("one", "uno"):
        with pytest.raises(PluginConflictError):
            manager.strategy(name)


def test_conflicting_backends(site):
    body = "@hookimpl\ndef power_backends():\n    return [BackendSpec(name='llama.cpp', open_model=print)]"
    install(site, "power-one", body)
    install(site, "power-two", body)
    manager = load()
    with pytest.raises(PluginConflictError, match=r"backend name 'llama\.cpp' is claimed by power-one 1\.0"):
        manager.backend()
    assert record(manager, "two").status == "conflict"


def test_missing_backend_names_the_package(site):
    with pytest.raises(ConfigError, match=r"no backend 'llama.cpp' is installed") as caught:
        load().backend()
    assert caught.value.hint == "pip install power-native"
    assert caught.value.code == "config.backend"
    with pytest.raises(ConfigError, match="no backend 'other' is installed") as caught:
        load().backend("other")
    assert caught.value.hint == ""


def test_failed_backend_plugin_raises_its_error(site):
    install(site, "power-native", "raise OSError('cannot open')")
    manager = load()
    with pytest.raises(PluginLoadError, match="cannot open"):
        manager.backend()
    assert record(manager, "native").strategies == ()


def test_unknown_reserved_built_in_and_missing_strategies(site):
    manager = load()
    with pytest.raises(ConfigError, match="unknown speculative strategy 'mpt'") as unknown:
        manager.strategy("mpt")
    assert unknown.value.hint == "did you mean 'mtp'?"
    with pytest.raises(ConfigError, match="built in"):
        manager.strategy("off")
    with pytest.raises(UnsupportedStrategyError, match="reserved"):
        manager.strategy("draft")
    with pytest.raises(UnsupportedStrategyError) as missing:
        manager.strategy("dflash")
    assert missing.value.hint.endswith("pip install power-dflash")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {"alpha", "beta"}),
        ("", set()),
        ("  ", set()),
        ("a", {"alpha"}),
        ("power-a", {"alpha"}),
        (" Power_A , b ", {"alpha", "beta"}),
        ("b,b", {"beta"}),
    ],
)
def test_power_plugins_chooses_by_entry_point_or_distribution(site, choice, expected):
    install(site, "power-a", strategies("alpha"))
    install(site, "power-b", strategies("beta"))
    env = {} if choice is None else {"POWER_PLUGINS": choice}
    manager = load_plugins(env)
    assert set(manager.strategies()) == expected
    assert [plugin.name for plugin in manager.plugins] == ["a", "b"]
    for plugin in manager.plugins:
        imported = f"plugin_power_{plugin.name}_{plugin.name}" in sys.modules
        assert imported == (plugin.status == "loaded")
        assert plugin.status in ("loaded", "left out")


@pytest.mark.parametrize("choice", ["c", "a,", ",", "a,power-c"])
def test_power_plugins_refuses_names_that_fit_nothing(site, choice):
    install(site, "power-a", strategies("alpha"))
    with pytest.raises(ConfigError, match="POWER_PLUGINS") as caught:
        load(POWER_PLUGINS=choice)
    assert "power-a" in str(caught.value)
    assert caught.value.field == "POWER_PLUGINS"


def test_power_plugins_suggests_the_nearest(site):
    install(site, "power-eagle", strategies("eagle"))
    with pytest.raises(ConfigError) as caught:
        load(POWER_PLUGINS="power-eagel")
    assert caught.value.hint == "did you mean 'power-eagle'?"


def test_what_is_left_out_says_so_when_asked_for(site):
    install(site, "power-mtp", strategies("mtp"))
    install(
        site,
        "power-native",
        "@hookimpl\ndef power_backends():\n    return [BackendSpec(name='llama.cpp', open_model=print)]",
    )
    manager = load(POWER_PLUGINS="")
    for ask in (lambda: manager.strategy("mtp"), manager.backend, lambda: manager.negotiate("mtp", object(), None)):
        with pytest.raises(ConfigError, match=r"is installed but `POWER_PLUGINS` leaves it out") as caught:
            ask()
        assert "add power-" in caught.value.hint


def test_a_plugin_left_out_does_not_conflict(site):
    install(site, "power-one", strategies("shared"))
    install(site, "power-two", strategies("shared"))
    assert load(POWER_PLUGINS="two").strategy("shared").name == "shared"


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
