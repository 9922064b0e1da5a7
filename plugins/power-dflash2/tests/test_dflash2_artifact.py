"""What makes a file a DFlash2 draft, beyond what all block drafts share."""

import pytest

from power_core.artifacts import DraftValidator, scan_header
from power_core.artifacts.values import ValueType
from power_core.testing.draft_headers import HIDDEN, minimal_draft
from power_core.testing.headers import minimal_target
from power_dflash2.artifact import MOST_TAPS, VALIDATOR


def failures(folder, draft):
    path = folder / "draft.gguf"
    path.write_bytes(draft.build())
    report = VALIDATOR.validate(scan_header(path))
    assert report.kind == "dflash2"
    return [(failure.id, failure.message) for failure in report.failures]


def test_implements_the_protocol():
    assert isinstance(VALIDATOR, DraftValidator)
    assert VALIDATOR.kind == "dflash2"


def test_good_draft_passes(tmp_path):
    assert failures(tmp_path, minimal_draft("dflash2")) == []


@pytest.mark.parametrize("kind", ["dflash", "dflash2", "dspark"])
def test_claims_its_own_kind_only(tmp_path, kind):
    path = tmp_path / "draft.gguf"
    path.write_bytes(minimal_draft(kind).build())
    assert VALIDATOR.matches(scan_header(path)) == (kind == "dflash2")


def test_pair_is_checked_against_the_targets_layers(tmp_path):
    for name, content in (("target", minimal_target()), ("draft", minimal_draft("dflash2"))):
        (tmp_path / name).write_bytes(content.build())
    report = VALIDATOR.validate_pair(scan_header(tmp_path / "target"), scan_header(tmp_path / "draft"))
    assert [failure.id for failure in report.failures] == ["pair.target_layer_range"]


@pytest.mark.parametrize(
    ("name", "number", "check_id"),
    [
        ("conv_kernel_size", 0, "conv_kernel_size"),
        ("conv_kernel_size", MOST_TAPS + 1, "conv_kernel_size"),
        ("conv_group_size", 0, "conv_group_size"),
        ("conv_group_size", 5, "conv_groups"),
        ("selector_rank", 0, "selector_rank"),
        ("selector_rank", 8, "shape"),
        ("selector_top_k", 0, "selector_top_k"),
        ("selector_top_k", 6, "lattice_width"),
        ("selector_top_k", 5, "lattice_candidates"),
    ],
)
def test_numbers_have_their_bounds(tmp_path, name, number, check_id):
    draft = minimal_draft("dflash2").with_key(f"dflash.{name}", ValueType.UINT32, number)
    assert failures(tmp_path, draft)[0][0] == f"block.{check_id}"


def test_candidates_are_tokens_that_can_be_drafted(tmp_path):
    assert failures(tmp_path, minimal_draft("dflash2").with_mapping((2, 0, 3))) == []
    ((check_id, message),) = failures(tmp_path, minimal_draft("dflash2").with_mapping((2, 0)))
    assert check_id == "block.lattice_candidates"
    assert "is 3 of 2 tokens" in message


def test_convolution_base_is_a_float_tensor_of_three_dimensions(tmp_path):
    draft = minimal_draft("dflash2")
    for shape, type_name, check_id in (
        ((HIDDEN, 2), "F32", "shape"),
        ((HIDDEN, 3, 2), "F32", "shape"),
        ((HIDDEN, 2, 2), "Q8_0", "type"),
    ):
        changed = draft.with_tensor("blk.1.attn_conv_base", shape, type_name)
        assert [found for found, _ in failures(tmp_path, changed)] == [f"block.{check_id}"]
