"""What the plugin registers."""

import pytest

from power_core.errors import PluginVersionError
from power_core.plugins import API_VERSION, DrafterContext, StrategySpec, TargetNeeds
from power_core.strategies import BUILT_IN_ALIASES
from power_ngram import plugin
from power_ngram.config import NgramConfig, NgramPoolConfig
from power_ngram.drafter import NgramDrafter
from power_ngram.pool_drafter import NgramPoolDrafter

SPECS = {spec.name: spec for spec in plugin.power_strategies()}


def test_handshake():
    info = plugin.power_plugin_info()
    assert info.name == "ngram"
    assert info.api[0] == API_VERSION[0]
    assert info.api <= API_VERSION


@pytest.mark.parametrize(("name", "draft_max"), [("prompt-lookup", 4), ("ngram-context", 4), ("ngram-pool", 7)])
def test_strategy_needs_no_weights(name, draft_max):
    spec = SPECS[name]
    assert isinstance(spec, StrategySpec)
    assert spec.aliases == BUILT_IN_ALIASES[name]
    assert (spec.default_draft_max_tokens, spec.uses_draft_file, spec.model_backed) == (draft_max, False, False)
    assert spec.refuse(None, None) is None
    assert spec.needs(None, None) == TargetNeeds()


def context_of(api_version):
    return DrafterContext(
        api_version=api_version,
        target_model=None,
        target_context=None,
        target_header=None,
        draft_path=None,
        draft_header=None,
        draft_max_tokens=4,
    )


@pytest.mark.parametrize(("name", "own_output_first"), [("prompt-lookup", False), ("ngram-context", True)])
def test_factory_builds_the_drafter(name, own_output_first):
    drafter = SPECS[name].create_drafter(context_of(API_VERSION))
    assert isinstance(drafter, NgramDrafter)
    assert drafter._config == NgramConfig(own_output_first=own_output_first)


def test_factory_builds_the_pool():
    drafter = SPECS["ngram-pool"].create_drafter(context_of(API_VERSION))
    assert isinstance(drafter, NgramPoolDrafter)
    assert drafter._config == NgramPoolConfig()


def test_factory_refuses_another_major_api():
    with pytest.raises(PluginVersionError, match=r"plugin API \(2, 0\), expected major version 1") as caught:
        SPECS["prompt-lookup"].create_drafter(context_of((2, 0)))
    assert caught.value.distribution == "power-ngram"
