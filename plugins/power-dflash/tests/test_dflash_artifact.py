"""What makes a file a DFlash draft, beyond what all block drafts share."""

import pytest

from power_core.artifacts import DraftValidator, scan_header
from power_core.artifacts.values import ValueType
from power_core.testing.draft_headers import HIDDEN, minimal_draft
from power_core.testing.headers import minimal_target
from power_dflash.artifact import VALIDATOR


def failures(folder, draft):
    path = folder / "draft.gguf"
    path.write_bytes(draft.build())
    report = VALIDATOR.validate(scan_header(path))
    assert report.kind == "dflash"
    return [(failure.id, failure.message) for failure in report.failures]


def test_implements_the_protocol():
    assert isinstance(VALIDATOR, DraftValidator)
    assert VALIDATOR.kind == "dflash"


def test_good_draft_passes(tmp_path):
    assert failures(tmp_path, minimal_draft("dflash")) == []


@pytest.mark.parametrize("kind", ["dflash", "dflash2", "dspark"])
def test_claims_its_own_kind_only(tmp_path, kind):
    path = tmp_path / "draft.gguf"
    path.write_bytes(minimal_draft(kind).build())
    assert VALIDATOR.matches(scan_header(path)) == (kind == "dflash")


def test_pair_is_checked_against_the_targets_layers(tmp_path):
    for name, content in (("target", minimal_target()), ("draft", minimal_draft("dflash"))):
        (tmp_path / name).write_bytes(content.build())
    report = VALIDATOR.validate_pair(scan_header(tmp_path / "target"), scan_header(tmp_path / "draft"))
    assert [failure.id for failure in report.failures] == ["pair.target_layer_range"]


@pytest.mark.parametrize(
    ("draft", "mark"),
    [
        (minimal_draft("dspark"), "of kind dspark: it has dflash.sample_from_anchor"),
        (minimal_draft("dflash2"), "of kind dflash2: it has dflash.conv_kernel_size"),
        (minimal_draft("dflash").with_tensor("conf_proj.weight", (HIDDEN, 1)), "of kind dspark: it has conf_proj"),
        (minimal_draft("dflash").with_tensor("selector_x.weight", (4, 4)), "of kind dflash2: it has selector_x"),
        (minimal_draft("dflash").with_key("dflash.selector_rank", ValueType.UINT32, 4), "has dflash.selector_rank"),
        (
            minimal_draft("dflash2").with_tensor("markov_w1.weight", (4, 4)),
            "of kind dflash2 and dspark: it has dflash.conv_kernel_size",
        ),
    ],
)
def test_state_of_another_kind_is_refused_alone(tmp_path, draft, mark):
    ((check_id, message),) = failures(tmp_path, draft)
    assert check_id == "block.kind"
    assert mark in message
