"""Where a model's tensors go, and in which type keys and values are kept: what is refused, and what changes nothing."""

import ctypes

import numpy as np
import pytest

from power_core.compute_placement import KV_TYPES
from power_core.errors import ConfigError, NativeCallError
from power_core.exactness.probe import measure_rows, probe_tokens
from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows
from power_native import NativeModel, _raw, block_opening
from power_native._loader import library

pytestmark = pytest.mark.native

DEPTH_TOKENS = 40
ROWS = 12


def open_model(path, **settings):
    return NativeModel.open(ModelSettings(path=path, **settings))


def last_logits(model, **settings):
    context = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=16, threads=1, **settings))
    try:
        context.evaluate([SequenceRows(start_pos=0, tokens=[5, 9, 2, 7])], kernels="decode")
        return context.logits(3).copy()
    finally:
        context.close()


@pytest.mark.parametrize("device", ["CUDA7", "CPU", "9"])
def test_a_gpu_that_is_not_there_is_refused_by_name(model_paths, device):
    with pytest.raises(ConfigError, match=rf"there is no GPU '{device}'") as caught:
        open_model(model_paths["attention"], device=device, gpu_layers=-1)
    assert caught.value.field == "device"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("ffn", "expected PATTERN=BUFFER"),
        ("=CPU", "expected PATTERN=BUFFER"),
        ("ffn_(=CPU", "is no regular expression"),
        ("ffn[=CPU", "is no regular expression"),
        ("ffn=GPU5", "the model may use: CPU"),
        ("(" * 30_000 + ")" * 30_000 + "=CPU", "a pattern of 60000 bytes, expected at most 1024"),
    ],
)
def test_a_tensor_placement_that_cannot_be_is_refused_before_loading(model_paths, rule, words):
    with pytest.raises(ConfigError, match=words) as caught:
        open_model(model_paths["attention"], tensor_placements=(rule,))
    assert caught.value.field == "override_tensor"


def test_more_placements_than_the_library_has_room_for_are_refused(model_paths):
    rules = tuple(f"blk_{number}=CPU" for number in range(5000))
    with pytest.raises(ConfigError, match="more than"):
        open_model(model_paths["attention"], tensor_placements=rules)


def test_placements_on_the_cpu_change_no_bit(model_paths):
    outcomes = []
    for rules in ((), (r"blk\.[01]\.ffn_.*=CPU", "attn=CPU")):
        model = open_model(model_paths["hybrid"], tensor_placements=rules)
        outcomes.append(last_logits(model))
        model.close()
    assert np.array_equal(*outcomes)


def test_without_a_gpu_offloaded_layers_run_exactly_on_the_cpu(model_paths):
    model = open_model(model_paths["attention"], gpu_layers=-1)
    reference = open_model(model_paths["attention"])
    if model.info.devices:
        model.close()
        reference.close()
        pytest.fail("this test describes machines without a GPU; run it there")
    assert np.array_equal(last_logits(model), last_logits(reference))
    model.close()
    reference.close()


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("kind", ["attention", "hybrid", "sliding-window"])
def test_rows_are_bit_identical_with_every_type_of_keys_and_values(models, kind, kv_type):
    snapshots = ROWS - 1 if kind == "hybrid" else 0
    settings = ContextSettings(ctx_tokens=128, batch_rows=32, snapshots=snapshots, threads=2, kv_type=kv_type)
    context = models[kind].open_context(settings)
    try:
        tokens = probe_tokens(DEPTH_TOKENS + ROWS, models[kind].info.n_vocab)
        for at in range(0, DEPTH_TOKENS, 20):
            rows = SequenceRows(start_pos=at, tokens=tokens[at : at + 20], logits="none")
            context.evaluate([rows], kernels="prefill")
        cells = measure_rows(context, tokens[DEPTH_TOKENS:], (2, 3, 5, 8, ROWS))
    finally:
        context.close()
    assert [cell.difference for cell in cells] == [0.0] * 5


def test_the_type_of_keys_and_values_changes_the_logits_and_the_memory(models):
    outcomes = {name: last_logits(models["attention"], kv_type=name) for name in ("f16", "f32", "q4_0")}
    assert not np.array_equal(outcomes["f16"], outcomes["q4_0"])
    sizes = {}
    for name in ("f32", "f16", "q8_0"):
        context = models["attention"].open_context(ContextSettings(ctx_tokens=4096, batch_rows=8, kv_type=name))
        sizes[name] = context.memory_bytes
        context.close()
    assert sizes["f32"] > sizes["f16"] > sizes["q8_0"]


def test_an_unknown_type_is_refused_by_the_library_too(models):
    parameters = _raw.power_context_params(
        size=ctypes.sizeof(_raw.power_context_params),
        ctx_tokens=64,
        batch_rows=8,
        sequences=1,
        causal=1,
        kv_type=b"q3_K",
    )
    model = models["attention"]._pointer("power_context_open")
    with pytest.raises(NativeCallError, match="expected one of f16, f32, bf16"):
        library().open_handle("power_context_open", model, ctypes.byref(parameters))


def test_quantised_keys_and_values_need_flash_attention(model_paths):
    model = open_model(model_paths["attention"], arithmetic="fast")
    with pytest.raises(ConfigError, match="needs flash attention"):
        model.open_context(ContextSettings(ctx_tokens=64, kv_type="q8_0", flash_attention="off"))
    model.close()


def test_placements_of_the_target_never_reach_a_draft(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(block_opening.NativeModel, "open", seen.append)
    target = ModelSettings(
        path=tmp_path / "target.gguf", gpu_layers=-1, device="CUDA0", tensor_placements=("ffn=CPU",), load_nextn=True
    )
    block_opening._open_model(tmp_path / "draft.gguf", target)
    assert seen == [ModelSettings(path=tmp_path / "draft.gguf", gpu_layers=-1, device="CUDA0")]
