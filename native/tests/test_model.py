"""Loading models: facts, refusals, progress, and the settings of contexts."""

import gc
import weakref

import pytest

from power_core.errors import ArtifactNotFoundError, ConfigError, ModelLoadError, NativeCallError, OutOfMemoryError
from power_core.target import ContextSettings, ModelSettings, TargetContext, TargetModel
from power_core.tokens import SequenceRows, TapRequest
from power_native import NativeModel, model
from power_native._memory_budget import MemoryLimit

pytestmark = pytest.mark.native


def test_facts_of_the_models(models):
    hybrid, attention, window = (models[kind].info for kind in ("hybrid", "attention", "sliding-window"))
    assert (hybrid.architecture, attention.architecture, window.architecture) == ("qwen35", "qwen3", "gemma3")
    assert (hybrid.recurrent, attention.recurrent, window.recurrent) == (True, False, False)
    assert (hybrid.n_layer_nextn, attention.n_layer_nextn) == (1, 0)
    assert window.n_swa_tokens == 32
    assert attention.n_vocab == 512
    assert "im_start" in attention.chat_template


def test_traits_of_the_models(models):
    hybrid, attention, window = (models[kind].traits for kind in ("hybrid", "attention", "sliding-window"))
    assert (hybrid.has_layer_taps, attention.has_layer_taps, window.has_layer_taps) == (True, True, True)
    assert (hybrid.has_nextn_rows, attention.has_nextn_rows) == (True, False)
    assert (hybrid.n_embd_in, attention.n_embd_in) == (256, 256)
    assert 0 <= attention.mask_token < 512


def test_nextn_layers_are_loaded_on_request_only(model_paths):
    with NativeModel.open(ModelSettings(path=model_paths["hybrid"])) as loaded:
        assert loaded.info.n_layer_nextn == 0


def test_protocols_are_met(models, open_context):
    assert isinstance(models["attention"], TargetModel)
    assert isinstance(open_context(), TargetContext)


def test_metadata_present_and_absent(models):
    assert models["hybrid"].metadata("general.architecture") == "qwen35"
    assert models["hybrid"].metadata("no.such.key") is None
    assert len(models["attention"].metadata("tokenizer.chat_template")) == len(models["attention"].info.chat_template)


def test_folder_and_absent_file_never_reach_the_library(tmp_path):
    with pytest.raises(ArtifactNotFoundError, match="is not a regular file"):
        NativeModel.open(ModelSettings(path=tmp_path))
    with pytest.raises(ArtifactNotFoundError, match="does not exist"):
        NativeModel.open(ModelSettings(path=tmp_path / "absent.gguf"))


def test_text_file_is_refused_with_the_librarys_words(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("this is not a model\n" * 10)
    with pytest.raises(ModelLoadError) as caught:
        NativeModel.open(ModelSettings(path=path))
    assert caught.value.symbol == "power_model_open"
    assert caught.value.detail
    assert caught.value.library.endswith(".so")


def test_model_too_large_for_memory_is_not_loaded(model_paths, monkeypatch):
    limit = MemoryLimit(available_bytes=1000, source="a test")
    monkeypatch.setattr(model, "available_memory", lambda: limit)
    with pytest.raises(OutOfMemoryError, match="1,000 bytes are available") as caught:
        NativeModel.open(ModelSettings(path=model_paths["attention"]))
    assert "smaller quantisation" in caught.value.hint


def test_context_too_large_for_memory_is_not_opened(models, monkeypatch):
    limit = MemoryLimit(available_bytes=1 << 20, source="a test")
    monkeypatch.setattr(model, "available_memory", lambda: limit)
    with pytest.raises(OutOfMemoryError, match="a context of 8,000 tokens") as caught:
        models["attention"].open_context(ContextSettings(ctx_tokens=8000))
    assert "num_ctx" in caught.value.hint


def test_head_context_too_large_for_memory_is_not_opened(models, open_context, monkeypatch):
    target = open_context("hybrid", nextn=True)
    monkeypatch.setattr(model, "available_memory", lambda: MemoryLimit(available_bytes=1000, source="a test"))
    with pytest.raises(OutOfMemoryError, match="a context of 256 tokens"):
        models["hybrid"].open_nextn_context(target)


def test_progress_rises_to_one(model_paths):
    seen = []
    NativeModel.open(ModelSettings(path=model_paths["attention"]), seen.append).close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


class Stop(Exception):
    """Raised by a test's callback."""


def test_what_progress_raises_stops_loading_and_is_raised(model_paths):
    calls = []

    def stop(fraction):
        calls.append(fraction)
        raise Stop

    with pytest.raises(Stop):
        NativeModel.open(ModelSettings(path=model_paths["attention"]), stop)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"ctx_tokens": 0}, "num_ctx"),
        ({"ctx_tokens": -5}, "num_ctx"),
        ({"ctx_tokens": 64, "batch_rows": 0}, "num_batch"),
        ({"ctx_tokens": 64, "batch_rows": 5, "snapshots": 4}, "num_batch"),
        ({"ctx_tokens": 4, "batch_rows": 64, "snapshots": 4}, "num_ctx"),
        ({"ctx_tokens": 64, "sequences": 0}, "sequences"),
        ({"ctx_tokens": 64, "snapshots": -1}, "snapshots"),
        ({"ctx_tokens": 64, "threads": -1}, "num_thread"),
        ({"ctx_tokens": 64, "flash_attention": "off"}, "flash_attention"),
    ],
)
def test_settings_out_of_range_name_their_field(models, settings, field):
    with pytest.raises(ConfigError) as caught:
        models["hybrid"].open_context(ContextSettings(**settings))
    assert caught.value.field == field
    assert field in str(caught.value)


def test_fast_arithmetic_may_have_flash_attention_off(model_paths):
    with NativeModel.open(ModelSettings(path=model_paths["attention"], arithmetic="fast")) as loaded:
        context = loaded.open_context(ContextSettings(ctx_tokens=64, batch_rows=16, flash_attention="off"))
        assert context.flash_attention is False
        context.evaluate([SequenceRows(start_pos=0, tokens=[1, 2])], kernels="decode")


def test_the_head_has_attention_of_its_own(model_paths):
    settings = ModelSettings(path=model_paths["hybrid"], arithmetic="fast", load_nextn=True)
    with NativeModel.open(settings) as loaded:
        target = loaded.open_context(ContextSettings(ctx_tokens=64, batch_rows=16, taps=TapRequest(nextn=True)))
        assert loaded.open_nextn_context(target, kv_type="f32", flash_attention="off").flash_attention is False
        with pytest.raises(ConfigError) as caught:
            loaded.open_nextn_context(target, kv_type="q8_0", flash_attention="off")
        assert caught.value.field == "kv_type"


def test_exact_arithmetic_has_flash_attention_on(open_context):
    assert open_context().flash_attention is True


def test_exact_arithmetic_that_is_not_possible_is_refused_at_open(model_paths):
    """Repacked weights stand for a backend that has no exact arithmetic: the library refuses both alike."""
    with NativeModel.open(ModelSettings(path=model_paths["attention"]), repack_weights=True) as loaded:
        with pytest.raises(ConfigError, match=r"POWER_UNSUPPORTED.*repacked") as caught:
            loaded.open_context(ContextSettings(ctx_tokens=64, batch_rows=16))
        assert (caught.value.field, caught.value.user_mistake) == ("arithmetic", True)
        assert caught.value.hint == "use `--arithmetic guarded`, or `fast`, which claims nothing"
        assert loaded._resource._children == []


def test_snapshots_are_read_back(open_context):
    assert open_context("hybrid", snapshots=5).snapshots == 5
    assert open_context("attention", snapshots=5).snapshots == 0


def test_context_size_is_the_users_number(open_context):
    context = open_context(ctx_tokens=100)
    assert context.ctx_tokens == 100


def test_taps_that_the_architecture_lacks_are_refused_by_name(models, draft_models):
    settings = ContextSettings(ctx_tokens=64, batch_rows=16, taps=TapRequest(nextn=True))
    with pytest.raises(NativeCallError, match="gemma3"):
        models["sliding-window"].open_context(settings)
    drafter = draft_models("own")
    assert not drafter.traits.has_layer_taps
    for taps, words in ((TapRequest(layers=(1,)), "input of layer 1"), (TapRequest(nextn=True), "no nextn rows")):
        with pytest.raises(NativeCallError, match=words) as caught:
            drafter.open_draft_context(ContextSettings(ctx_tokens=64, batch_rows=16, taps=taps))
        assert "'dflash'" in str(caught.value)
    gc.collect()


def test_nextn_context_needs_nextn_layers(models, open_context):
    with pytest.raises(ConfigError, match="no multi-token-prediction layers") as caught:
        models["attention"].open_nextn_context(open_context("attention"))
    assert caught.value.field == "load_nextn"


def test_dropped_model_and_context_are_freed(model_paths):
    loaded = NativeModel.open(ModelSettings(path=model_paths["attention"]))
    context = loaded.open_context(ContextSettings(ctx_tokens=64, batch_rows=16))
    resource, alive = loaded._resource, weakref.ref(loaded)
    del loaded
    gc.collect()
    assert alive() is not None
    del context
    gc.collect()
    assert alive() is None
    assert resource.pointer is None
