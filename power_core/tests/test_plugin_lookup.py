"""Asking the loaded plugins for a name: failed plugins, conflicts, absent names, and `POWER_PLUGINS`."""

import sys

import pytest
from installed_plugins import install, load, record, strategies

from power_core.errors import ConfigError, PluginConflictError, PluginLoadError, UnsupportedStrategyError
from power_core.plugins.manager import load_plugins


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
