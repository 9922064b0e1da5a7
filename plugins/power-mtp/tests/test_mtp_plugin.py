"""What the plugin registers, and what its factory refuses before it opens anything."""

from pathlib import Path

import pytest

from power_core.artifacts import scan_header
from power_core.errors import ArtifactContractError, ConfigError, PluginVersionError, UnsupportedStrategyError
from power_core.plugins import API_VERSION, DrafterContext, StrategySpec, TargetNeeds
from power_core.strategies import BUILT_IN_ALIASES
from power_core.testing import build_tiny_target
from power_core.tokens import TapRequest
from power_mtp import plugin

(SPEC,) = plugin.power_strategies()


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("headers")
    return {
        kind: scan_header(build_tiny_target(folder / f"{kind}.gguf", kind=kind, hidden=128))
        for kind in ("hybrid", "attention")
    }


def create(header, **changes):
    values = {
        "api_version": API_VERSION,
        "target_model": object(),
        "target_context": object(),
        "target_header": header,
        "draft_path": None,
        "draft_header": None,
        "draft_max_tokens": 3,
        **changes,
    }
    return SPEC.create_drafter(DrafterContext(**values))


def test_handshake():
    info = plugin.power_plugin_info()
    assert info.name == "mtp"
    assert info.api[0] == API_VERSION[0]
    assert info.api <= API_VERSION


def test_strategy():
    assert isinstance(SPEC, StrategySpec)
    assert (SPEC.name, SPEC.aliases) == ("mtp", BUILT_IN_ALIASES["mtp"])
    assert (SPEC.default_draft_max_tokens, SPEC.uses_draft_file, SPEC.model_backed) == (3, False, True)
    assert SPEC.options == ("mtp_fr_vocab_size", "mtp_fr_map")
    assert SPEC.needs(None, None) == TargetNeeds(nextn_weights=True, taps=TapRequest(nextn=True))


def test_validator():
    assert [validator.kind for validator in plugin.power_artifact_validators()] == ["mtp", "fr-map"]


def test_refusal_names_architecture_and_blocks(headers):
    assert SPEC.refuse(headers["hybrid"], None) is None
    assert SPEC.refuse(headers["attention"], None) == "this file has no MTP head (architecture qwen3, 4 blocks)"


def test_factory_refuses_another_backend(headers):
    with pytest.raises(UnsupportedStrategyError, match="the target runs on object, but strategy 'mtp' needs"):
        create(headers["hybrid"])


def test_factory_refuses_a_file_without_a_head(headers):
    with pytest.raises(ArtifactContractError, match="this file has no MTP head"):
        create(headers["attention"])


def test_factory_refuses_another_major_api(headers):
    with pytest.raises(PluginVersionError, match=r"plugin API \(2, 0\), expected major version 1"):
        create(headers["hybrid"], api_version=(2, 0))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mtp_fr_vocab_size": 8_192}, UnsupportedStrategyError),  # of the target, which is no native one
        ({"mtp_fr_vocab_size": 0}, ConfigError),
        ({"mtp_fr_map": Path("absent.gguf")}, UnsupportedStrategyError),
        ({"other": 1}, ConfigError),
    ],
)
def test_factory_refuses_options(headers, options, error):
    with pytest.raises(error):
        create(headers["hybrid"], options=options)
