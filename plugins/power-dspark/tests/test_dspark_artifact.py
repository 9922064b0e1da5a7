"""What makes a file a DSpark draft, beyond what all block drafts share."""

import pytest

from power_core.artifacts import DraftValidator, scan_header
from power_core.artifacts.values import ValueType
from power_core.testing.draft_headers import HIDDEN, minimal_draft
from power_core.testing.headers import minimal_target
from power_dspark.artifact import VALIDATOR


def failures(folder, draft):
    path = folder / "draft.gguf"
    path.write_bytes(draft.build())
    report = VALIDATOR.validate(scan_header(path))
    assert report.kind == "dspark"
    return [(failure.id, failure.message) for failure in report.failures]


def test_implements_the_protocol():
    assert isinstance(VALIDATOR, DraftValidator)
    assert VALIDATOR.kind == "dspark"


def test_good_draft_passes(tmp_path):
    assert failures(tmp_path, minimal_draft("dspark")) == []


@pytest.mark.parametrize("kind", ["dflash", "dflash2", "dspark"])
def test_claims_its_own_kind_only(tmp_path, kind):
    path = tmp_path / "draft.gguf"
    path.write_bytes(minimal_draft(kind).build())
    assert VALIDATOR.matches(scan_header(path)) == (kind == "dspark")


def test_pair_is_checked_against_the_targets_layers(tmp_path):
    for name, content in (("target", minimal_target()), ("draft", minimal_draft("dspark"))):
        (tmp_path / name).write_bytes(content.build())
    report = VALIDATOR.validate_pair(scan_header(tmp_path / "target"), scan_header(tmp_path / "draft"))
    assert [failure.id for failure in report.failures] == ["pair.target_layer_range"]


def test_confidence_head_may_be_left_out_where_the_key_says_so(tmp_path):
    draft = minimal_draft("dspark").with_key("dflash.has_confidence_head", ValueType.BOOL, False)
    assert failures(tmp_path, draft.without_tensor("conf_proj.weight", "conf_proj.bias")) == []
    assert [check_id for check_id, _ in failures(tmp_path, draft)] == ["block.confidence_head"]
    alone = draft.without_tensor("conf_proj.weight")
    assert [check_id for check_id, _ in failures(tmp_path, alone)] == ["block.unknown_tensors"]


def test_confidence_head_needs_no_bias(tmp_path):
    assert failures(tmp_path, minimal_draft("dspark").without_tensor("conf_proj.bias")) == []


def test_row_of_the_confidence_head_may_be_stored_with_one_dimension(tmp_path):
    assert failures(tmp_path, minimal_draft("dspark").with_tensor("conf_proj.weight", (HIDDEN + 4,), "F16")) == []


@pytest.mark.parametrize("name", ["sample_from_anchor", "has_confidence_head"])
def test_flags_are_not_guessed(tmp_path, name):
    ((check_id, message),) = failures(tmp_path, minimal_draft("dspark").without_key(f"dflash.{name}"))
    assert check_id == f"block.{name}"
    assert f"'dflash.{name}' is missing" in message


def test_rank_is_the_same_everywhere(tmp_path):
    draft = minimal_draft("dspark").with_tensor("markov_w2.weight", (8, 4))
    assert [check_id for check_id, _ in failures(tmp_path, draft)] == ["block.shape"]
    other = minimal_draft("dspark").with_tensor("markov_w1.weight", (8, 4)).with_tensor("markov_w2.weight", (8, 4))
    (failure,) = failures(tmp_path, other)
    assert "'conf_proj.weight' has shape (36, 1)" in failure[1]


def test_markov_head_of_a_smaller_vocabulary(tmp_path):
    draft = minimal_draft("dspark").with_mapping((2, 0, 3))
    assert failures(tmp_path, draft) == []
    wide = draft.with_tensor("markov_w2.weight", (4, 4))
    assert [check_id for check_id, _ in failures(tmp_path, wide)] == ["block.shape"]
