"""What a plugin must answer: the handshake, the API version, and the fields of what it registers."""

import sys

import pytest
from installed_plugins import INFO, assert_only_good_works, info, install, load, record, strategies

from power_core.errors import PluginContractError, PluginVersionError
from power_core.plugins import API_VERSION


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
