"""What every block drafter's plugin registers, and what it refuses before a model is opened.

Imported by the tests of each block drafter's plugin.
"""

import pytest
from draft_forms import KINDS

from power_core.artifacts import scan_header
from power_core.errors import (
    ArtifactContractError,
    ConfigError,
    LibraryNotFoundError,
    PluginVersionError,
    UnsupportedStrategyError,
)
from power_core.plugins import API_VERSION, DrafterContext, StrategySpec, TargetNeeds
from power_core.strategies import BUILT_IN_ALIASES
from power_core.tokens import TapRequest
from power_native import NativeModel, block_opening


@pytest.fixture(scope="session")
def headers(files, kind):
    """Headers of a pair that fits."""
    return scan_header(files.target()), scan_header(files.draft(kind.name))


@pytest.fixture
def create(headers, kind):
    def create(**changes):
        values = {
            "api_version": API_VERSION,
            "target_model": object(),
            "target_context": object(),
            "target_header": headers[0],
            "draft_path": headers[1].path,
            "draft_header": headers[1],
            "draft_max_tokens": 3,
            **changes,
        }
        return kind.spec.create_drafter(DrafterContext(**values))

    return create


# --------------------------------------------------------------------------------------------------------- registration


def test_handshake(kind):
    info = kind.plugin.power_plugin_info()
    assert info.name == kind.name
    assert info.api[0] == API_VERSION[0]
    assert info.api <= API_VERSION


def test_strategy(kind):
    spec = kind.spec
    assert isinstance(spec, StrategySpec)
    assert (spec.name, spec.aliases) == (kind.name, BUILT_IN_ALIASES[kind.name])
    assert (spec.default_draft_max_tokens, spec.uses_draft_file, spec.model_backed) == (4, True, True)
    assert spec.options == ()


def test_validator(kind):
    (validator,) = kind.plugin.power_artifact_validators()
    assert validator.kind == kind.name


def test_needs_and_bound_come_from_the_file(files, kind):
    header = scan_header(files.draft(kind.name, target_layers=(2, 0)))
    assert kind.spec.needs(None, header) == TargetNeeds(taps=TapRequest(layers=(2, 0)))
    assert kind.spec.most_drafts(None, header) == kind.most_drafts
    assert kind.spec.most_ctx(None, header) == 8192
    assert kind.spec.has_confidence(None, header) is True


# ------------------------------------------------------------------------------------------------------------- refusals


def test_a_pair_that_fits_is_not_refused_and_no_model_is_opened(monkeypatch, headers, kind):
    monkeypatch.setattr(NativeModel, "open", None)
    assert kind.spec.refuse(*headers) is None


def test_another_kind_is_refused_with_the_name_that_fits(files, kind):
    for other in set(KINDS) - {kind.name}:
        reason = kind.spec.refuse(scan_header(files.target()), scan_header(files.draft(other)))
        assert f"looks like {other}" in reason
        assert reason.endswith(f"--spec {other}")


def test_a_whole_model_is_refused_as_what_it_is(files, kind):
    header = scan_header(files.target("attention"))
    assert "Target model, architecture 'qwen3'" in kind.spec.refuse(header, header)


def test_a_draft_for_another_width_is_refused(files, kind):
    reason = kind.spec.refuse(scan_header(files.target()), scan_header(files.draft(kind.name, hidden=128)))
    assert "the draft's hidden rows are 128 wide, the target's 256" in reason


def test_a_target_whose_hidden_rows_the_library_hides_is_refused_by_name(monkeypatch, headers, kind):
    asked = []
    monkeypatch.setattr(block_opening, "exposes_layer_inputs", asked.append)
    assert "does not expose hidden rows of architecture 'qwen35'" in kind.spec.refuse(*headers)
    assert asked == ["qwen35"]


def test_without_a_library_the_files_alone_decide(monkeypatch, headers, kind):
    def no_library(architecture):
        raise LibraryNotFoundError("no library")

    monkeypatch.setattr(block_opening, "exposes_layer_inputs", no_library)
    assert kind.spec.refuse(*headers) is None


def test_without_a_draft_nothing_runs(headers, kind, create):
    assert kind.spec.refuse(headers[0], None) == "a draft file is needed and none was given"
    for call in (
        lambda: kind.spec.needs(headers[0], None),
        lambda: kind.spec.most_drafts(headers[0], None),
        lambda: kind.spec.most_ctx(headers[0], None),
        lambda: kind.spec.has_confidence(headers[0], None),
        lambda: create(draft_header=None),
    ):
        with pytest.raises(ConfigError, match="none was given") as caught:
            call()
        assert caught.value.field == "draft"


# -------------------------------------------------------------------------------------------------------------- factory


def test_factory_refuses_another_backend(create, kind):
    with pytest.raises(UnsupportedStrategyError, match=f"runs on object, but strategy '{kind.name}' needs"):
        create()


def test_factory_refuses_another_major_api(create, kind):
    with pytest.raises(PluginVersionError, match=r"plugin API \(2, 0\), expected major version 1") as caught:
        create(api_version=(2, 0))
    assert caught.value.distribution == f"power-{kind.name}"


def test_factory_refuses_what_is_no_block_draft(create, files):
    with pytest.raises(ArtifactContractError) as caught:
        create(draft_header=scan_header(files.target()))
    assert caught.value.check_id == "block.kind"
