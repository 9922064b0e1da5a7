"""The shared contract of block drafts: no single change of a good file is accepted but what the format allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from draft_faults import BOOL, F32, I32, STRING, U32, VALIDATORS, scan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from power_core.artifacts.block_layout import read_block_layout
from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.tensor_checks import MATRIX_TYPES
from power_core.artifacts.validation import DraftValidator
from power_core.errors import ArtifactContractError, ArtifactFormatError
from power_core.testing.draft_headers import HEAD_WIDTH, HEADS, HIDDEN, DraftHeader, minimal_draft
from power_core.testing.headers import GgufBytes

KINDS = ("dflash", "dflash2", "dspark")
REMOVABLE = ("tokenizer.ggml.pre", "tokenizer.ggml.token_type", "tokenizer.ggml.eos_token_id")
OPTIONAL_TENSORS = ("conf_proj.bias",)
VECTOR = ("_norm.weight", "conv_base", ".bias", ".scale", "attn_sinks.weight", "rope_freqs.weight", "_scale.weight")


def validate(folder: Path, draft: DraftHeader, kind: str) -> list[str]:
    """Return the ids of the failed checks; a file that the scan refuses fails with the scan's id."""
    try:
        header = scan(folder, "draft.gguf", draft.build())
    except ArtifactFormatError as error:
        return [error.check_id]
    return [check.id for check in VALIDATORS[kind].validate(header).failures]


def full_draft(kind: str) -> DraftHeader:
    """A draft of a kind with every optional tensor that may stand beside the others."""
    draft = minimal_draft(kind).with_tensor("token_embd.weight", (HIDDEN, 4)).with_mapping((3, 0, 2))
    draft = draft.with_tensor("rope_freqs.weight", (HEAD_WIDTH // 2,)).with_tensor("fc.scale", (1,))
    for block in range(2):
        for name in ("post_attention_norm", "post_ffw_norm"):
            draft = draft.with_tensor(f"blk.{block}.{name}.weight", (HIDDEN,))
        draft = draft.with_tensor(f"blk.{block}.layer_output_scale.weight", (1,))
        draft = draft.with_tensor(f"blk.{block}.attn_sinks.weight", (HEADS,))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            draft = draft.with_tensor(f"blk.{block}.{name}.scale", (1,))
    return draft.with_tensor("markov_w2.scale", (1,)) if kind == "dspark" else draft


@pytest.mark.parametrize("kind", KINDS)
def test_good_drafts_pass(tmp_path: Path, kind: str) -> None:
    assert validate(tmp_path, minimal_draft(kind), kind) == []
    assert validate(tmp_path, full_draft(kind), kind) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_required_key_can_be_left_out(tmp_path: Path, kind: str) -> None:
    draft = minimal_draft(kind)
    removed = [name for name in draft.keys if name not in REMOVABLE]
    accepted = [name for name in removed if validate(tmp_path, draft.without_key(name), kind) == []]
    assert len(removed) > 15
    assert accepted == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_can_be_stored_as_another_type(tmp_path: Path, kind: str) -> None:
    draft = minimal_draft(kind)
    wrong = {name: draft.with_key(name, STRING, "x") for name in draft.keys if name != "tokenizer.ggml.pre"}
    assert [name for name, changed in wrong.items() if validate(tmp_path, changed, kind) == []] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_required_tensor_can_be_left_out(tmp_path: Path, kind: str) -> None:
    draft = minimal_draft(kind)
    removed = [name for name in draft.tensors if name not in OPTIONAL_TENSORS]
    assert [name for name in removed if validate(tmp_path, draft.without_tensor(name), kind) == []] == []


def neighbours(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every shape that differs by one in one place, or by one dimension."""
    for axis, extent in enumerate(shape):
        for other in (extent - 1, extent + 1):
            if other > 0:
                yield (*shape[:axis], other, *shape[axis + 1 :])
    yield (*shape, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_no_shape_can_be_changed_by_one(tmp_path: Path, kind: str) -> None:
    draft = full_draft(kind)
    accepted = [
        (name, shape)
        for name, tensor in draft.tensors.items()
        for shape in neighbours(tensor.shape)
        if validate(tmp_path, draft.with_tensor(name, shape, tensor.type_name), kind) == []
    ]
    assert accepted == []


def allowed_types(name: str) -> tuple[str, ...]:
    if name == "d2t":
        return ("I64",)
    return ("F32",) if name.endswith(VECTOR) else MATRIX_TYPES


@pytest.mark.parametrize("kind", KINDS)
def test_no_tensor_can_have_an_unusable_type(tmp_path: Path, kind: str) -> None:
    draft = full_draft(kind)
    accepted = [
        (name, type_name)
        for name, tensor in draft.tensors.items()
        for type_name in ("F16", "BF16", "F64", "I32", "I64", "Q8_0", "Q8_1")
        if type_name not in allowed_types(name)
        and not name.startswith("blk.1.")
        and validate(tmp_path, draft.with_tensor(name, tensor.shape, type_name), kind) == []
    ]
    assert accepted == []


@pytest.mark.parametrize("type_name", ["F16", "BF16", "Q8_0", "Q4_0", "IQ4_NL", "MXFP4"])
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_may_be_quantised(tmp_path: Path, kind: str, type_name: str) -> None:
    draft = minimal_draft(kind)
    for name, tensor in draft.tensors.items():
        if not name.endswith(VECTOR) and tensor.shape[0] % 32 == 0:
            draft = draft.with_tensor(name, tensor.shape, type_name)
    assert validate(tmp_path, draft, kind) == []


def test_values_may_be_the_keys_where_every_block_says_so(tmp_path: Path) -> None:
    draft = minimal_draft("dspark")
    for block in range(2):
        draft = draft.without_tensor(f"blk.{block}.attn_v.weight")
        for name in ("post_attention_norm", "post_ffw_norm"):
            draft = draft.with_tensor(f"blk.{block}.{name}.weight", (HIDDEN,))
    assert validate(tmp_path, draft, "dspark") == []
    leftover = draft.with_tensor("blk.0.attn_v.scale", (1,))
    assert validate(tmp_path, leftover, "dspark") == ["block.unknown_tensors"]


def test_scale_of_the_head_is_read_only_beside_its_own_type(tmp_path: Path) -> None:
    draft = minimal_draft("dflash").with_tensor("output.scale", (1,))
    plain = draft.with_tensor("output.weight", (HIDDEN, 4), "Q8_0")
    assert validate(tmp_path, plain, "dflash") == ["block.unknown_tensors"]


def test_offsets_are_named_in_the_message(tmp_path: Path) -> None:
    header = scan(tmp_path, "d.gguf", minimal_draft("dflash").with_mapping((0, 0, 1)).build())
    failures = VALIDATORS["dflash"].validate(header).failures
    assert [failure.id for failure in failures] == ["block.d2t_repeated"]
    assert "the values look like offsets" in failures[0].message
    other = scan(tmp_path, "e.gguf", minimal_draft("dflash").with_mapping((3, 3, 3)).build())
    assert "offsets" not in VALIDATORS["dflash"].validate(other).failures[0].message


def test_missing_target_layers_are_not_guessed(tmp_path: Path) -> None:
    header = scan(tmp_path, "d.gguf", minimal_draft("dflash").without_key("dflash.target_layers").build())
    assert "required, and not guessable" in VALIDATORS["dflash"].validate(header).failures[0].message
    with pytest.raises(ArtifactContractError, match="target_layers"):
        read_block_layout(header)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    name=st.sampled_from(sorted(minimal_draft("dspark").keys | minimal_draft("dflash2").keys)),
    value_type=st.sampled_from([U32, I32, F32, BOOL]),
    number=st.integers(0, 2**31 - 1),
    array=st.booleans(),
)
def test_verdict_never_raises_and_accepted_layouts_can_be_read(
    tmp_path: Path, kind: str, name: str, value_type: int, number: int, array: bool
) -> None:
    value = bool(number % 2) if value_type == BOOL else number
    draft = minimal_draft(kind).with_key(name, value_type, (value,) if array else value)
    header = scan(tmp_path, "d.gguf", draft.build())
    if VALIDATORS[kind].validate(header).ok:
        layout = read_block_layout(header)
        assert 0 <= layout.mask_token < layout.vocabulary_tokens
        assert layout.geometry.most_drafts >= 1


def test_layout_of_each_kind(tmp_path: Path) -> None:
    layouts = {kind: read_block_layout(scan(tmp_path, "d.gguf", minimal_draft(kind).build())) for kind in KINDS}
    dspark = layouts["dspark"]
    assert (dspark.hidden, dspark.target_layers, dspark.block_size_rows) == (32, (0, 2), 4)
    assert (dspark.vocabulary_tokens, dspark.mask_token) == (4, 3)
    assert (dspark.context_tokens, dspark.causal) == (64, False)
    assert dspark.predicts_at_anchor
    assert dspark.has_confidence
    assert [layouts[kind].geometry.most_drafts for kind in KINDS] == [3, 3, 4]
    assert [layouts[kind].lattice_width for kind in KINDS] == [0, 3, 0]


def test_layout_of_optional_forms(tmp_path: Path) -> None:
    draft = full_draft("dspark").with_key("dflash.attention.causal", BOOL, True)
    draft = draft.with_key("dflash.sample_from_anchor", BOOL, False)
    draft = draft.with_key("dflash.attention.sliding_window", U32, 16)
    draft = draft.with_key("dflash.attention.sliding_window_pattern", BOOL, (True, False))
    assert validate(tmp_path, draft, "dspark") == []
    layout = read_block_layout(scan(tmp_path, "d.gguf", draft.build()))
    assert layout.causal
    assert not layout.predicts_at_anchor


@pytest.mark.parametrize("content", [minimal_draft("dflash2").with_tensor("markov_w1.weight", (4, 4)), GgufBytes()])
def test_layout_of_other_files_is_refused(tmp_path: Path, content: DraftHeader | GgufBytes) -> None:
    with pytest.raises(ArtifactContractError):
        read_block_layout(scan(tmp_path, "d.gguf", content.build()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_claimed_by_its_own_validator_alone(tmp_path: Path, kind: str) -> None:
    header: GgufHeader = scan(tmp_path, "d.gguf", minimal_draft(kind).build())
    assert [name for name, validator in VALIDATORS.items() if validator.matches(header)] == [kind]
    assert all(isinstance(validator, DraftValidator) for validator in VALIDATORS.values())
    assert not any(each.matches(attrs.evolve(header, metadata={})) for each in VALIDATORS.values())
