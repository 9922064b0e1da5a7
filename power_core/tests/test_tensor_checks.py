"""Types of tensors: what can be multiplied, what has to be F32, what holds indices."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from power_core.artifacts.gguf import scan_header
from power_core.artifacts.target_checks import check_target
from power_core.artifacts.tensor_checks import MATRIX_TYPES
from power_core.errors import ArtifactContractError
from power_core.testing.headers import minimal_target
from power_core.testing.models import build_tiny_target

UNUSABLE = ("I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K")
IDS = {kind.name: int(kind) for kind in GGMLQuantizationType} | {"Q2_0": 42}


def verdicts(folder: Path, name: str, shape: tuple[int, ...], type_name: str) -> list[tuple[str, object, str]]:
    path = folder / "m.gguf"
    path.write_bytes(minimal_target().with_tensor(name, shape, IDS[type_name]).build())
    return [(check.id, check.actual, check.message) for check in check_target(scan_header(path)).failures]


@pytest.mark.parametrize("type_name", MATRIX_TYPES)
def test_matrices_of_types_that_multiply_pass(tmp_path: Path, type_name: str):
    assert verdicts(tmp_path, "blk.0.attn_q.weight", (256, 32), type_name) == []
    assert verdicts(tmp_path, "blk.0.ffn_up_exps.weight", (256, 32, 2), type_name) == []


@pytest.mark.parametrize("type_name", UNUSABLE)
def test_matrices_of_other_types_are_refused(tmp_path: Path, type_name: str):
    [(check, actual, message)] = verdicts(tmp_path, "blk.0.attn_q.weight", (256, 32), type_name)
    assert (check, actual) == ("target.tensor_type", type_name)
    assert f"'blk.0.attn_q.weight' is stored as {type_name}, expected F32, F16" in message


def test_every_known_type_is_either_allowed_or_refused():
    assert set(MATRIX_TYPES) | set(UNUSABLE) == set(IDS)


@pytest.mark.parametrize("type_name", ["F16", "BF16", "Q8_0", "I32", "F64"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.ffn_norm.weight", (32,)),
        ("blk.0.ffn_norm.weight", (32, 1)),
        ("blk.0.attn_q_norm.weight", (32, 2)),
        ("blk.0.nextn.enorm.weight", (32, 2)),
        ("blk.0.attn_norm_2.weight", (32, 2)),
        ("blk.0.attn_q.bias", (32,)),
        ("blk.0.ffn_up_exps.bias", (32, 4)),
        ("blk.0.ssm_conv1d.weight", (32, 32)),
        ("blk.0.ssm_conv1d_q.weight", (32, 1, 4)),
        ("blk.0.shortconv.conv.weight", (32, 32)),
        ("blk.0.ssm_a", (32, 2)),
        ("blk.0.time_mix_lerp_fused.weight", (32, 1, 1, 5)),
        ("blk.0.hc_attn_base.weight", (32, 2)),
        ("rope_freqs.weight", (32,)),
    ],
)
def test_what_is_added_or_scaled_is_f32(tmp_path: Path, name: str, shape: tuple[int, ...], type_name: str):
    assert verdicts(tmp_path, name, shape, "F32") == []
    [(check, _, message)] = verdicts(tmp_path, name, shape, type_name)
    assert check == "target.tensor_type"
    assert message == f"tensor '{name}' is stored as {type_name}, expected F32"


@pytest.mark.parametrize("name", ["blk.0.time_mix_decay_w1.weight", "blk.0.ssm_alpha.weight", "blk.0.ssm_dt.weight"])
def test_matrices_beside_such_tensors_keep_their_types(tmp_path: Path, name: str):
    assert verdicts(tmp_path, name, (32, 2), "Q8_0") == []


@pytest.mark.parametrize(("name", "shape"), [("d2t", (32,)), ("blk.0.ffn_gate_tid2eid.weight", (2, 4))])
def test_tensors_of_indices_are_integers(tmp_path: Path, name: str, shape: tuple[int, ...]):
    assert verdicts(tmp_path, name, shape, "I32") == []
    assert verdicts(tmp_path, name, shape, "I64") == []
    [(_, _, message)] = verdicts(tmp_path, name, shape, "F32")
    assert message == f"tensor '{name}' is stored as F32, expected I32, I64"


def test_further_tensors_are_counted(tmp_path: Path):
    path = tmp_path / "m.gguf"
    norms = minimal_target()
    for name in ("a_norm.weight", "b_norm.weight", "c_norm.weight"):
        norms = norms.with_tensor(name, (32,), IDS["F16"])
    path.write_bytes(norms.build())
    with pytest.raises(ArtifactContractError, match=r"'a_norm.weight' is stored as F16.*\(2 more tensors") as caught:
        check_target(scan_header(path)).raise_first()
    assert (caught.value.code, caught.value.check_id) == ("artifact.contract", "target.tensor_type")


@pytest.mark.parametrize("kind", ["hybrid", "attention", "sliding-window"])
@pytest.mark.parametrize("dtype", ["F16", "Q8_0"])
def test_models_pass(tmp_path: Path, kind: str, dtype: str):
    path = build_tiny_target(tmp_path / "m.gguf", kind=kind, dtype=dtype, hidden=128)
    assert check_target(scan_header(path)).failures == ()
