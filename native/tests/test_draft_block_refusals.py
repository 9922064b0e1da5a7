"""What a block draft refuses: arguments that lie, and everything on which the library would end the process."""

import ctypes

import numpy as np
import pytest
from gguf import GGUFReader

from power_core.errors import ConfigError, NativeCallError, StateError
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.tokens import SequenceRows, TapRequest
from power_native import BlockDraft, NativeModel, _raw

pytestmark = pytest.mark.native

END = 12
ROWS = np.random.default_rng(3).standard_normal((END, 768)).astype(np.float32)


@pytest.fixture
def target(open_context):
    return open_context("hybrid")


@pytest.fixture
def open_block(draft_models, target):
    """Return a function that opens a form's ``BlockDraft`` with END rows fed."""
    opened = []

    def open_one(form, *, nextn=False, causal=False, **options):
        model = draft_models(form)
        options = {"ctx_tokens": 128, "batch_rows": 32, "threads": 1, **options}
        settings = ContextSettings(taps=TapRequest(nextn=nextn), **options)
        context = model.open_draft_context(settings, target=target, causal=causal, embedding_width=768)
        opened.append(context)
        block = BlockDraft(context, max_rows=min(32, context.batch_rows))
        block.feed(ROWS, 0)
        return block

    yield open_one
    for context in opened:
        context.close()


def largest(block, **changes):
    arguments = {"first_pos": END, "token": 7, "fill_token": 511, "n_rows": 6, "first_row": 1, "max_tokens": 5}
    return block.choose_largest(**{**arguments, **changes})


def lattice(block, **changes):
    arguments = {"first_pos": END, "token": 7, "fill_token": 511, "n_rows": 6, "max_tokens": 5, "width": 5}
    return block.walk_lattice(**{**arguments, **changes})


def refused(block, call, words):
    """The refusal names what is wrong, and the block drafts afterwards as if nothing had been asked."""
    expected = largest(block)
    with pytest.raises(NativeCallError, match=words):
        call()
    assert (block.context.length_tokens(), block.context.is_stale()) == (END, False)
    assert largest(block)[0] == expected[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_rows": 0}, "n_rows"),
        ({"n_rows": -1}, "n_rows"),
        ({"n_rows": 9, "max_tokens": 8}, "block size 8"),
        ({"first_row": -1}, "first_row"),
        ({"first_row": 6}, "first_row"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 6}, "max_tokens"),
        ({"first_row": 2}, "max_tokens"),
        ({"p_min": -0.1, "confidence": "softmax"}, "p_min"),
        ({"p_min": 1.5, "confidence": "softmax"}, "p_min"),
        ({"p_min": float("nan"), "confidence": "softmax"}, "p_min"),
        ({"p_min": 0.5}, "need a `confidence`"),
        ({"confidence": "state"}, "nextn tap"),
        ({"token": 512}, "token 512"),
        ({"token": -1}, "token -1"),
        ({"fill_token": 512}, "token 512"),
        ({"seq_id": 1}, "sequence 1"),
        ({"seq_id": -1}, "sequence -1"),
        ({"first_pos": END - 1}, "first_pos"),
        ({"first_pos": END + 1}, "first_pos"),
    ],
)
def test_wrong_arguments_change_nothing(open_block, changes, words):
    block = open_block("dflash")
    refused(block, lambda: largest(block, **changes), words)


@pytest.mark.parametrize("name", ["first_pos", "token", "fill_token", "seq_id", "n_rows", "first_row", "max_tokens"])
def test_numbers_of_more_than_32_bits_are_refused(open_block, name):
    block = open_block("dflash")
    expected = largest(block)
    right = {"first_pos": END, "token": 7, "fill_token": 511, "seq_id": 0, "n_rows": 6, "first_row": 1, "max_tokens": 5}
    with pytest.raises(ConfigError, match="expected each within"):
        largest(block, **{name: right[name] + 2**32})
    assert largest(block)[0] == expected[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 4}, "lattice_width"),
        ({"width": 6}, "lattice_width"),
        ({"width": 0}, "lattice_width"),
        ({"first_row": 0}, "first_row"),
        ({"n_rows": 1, "max_tokens": 1}, "at least 2"),
        ({"confidence": "state"}, "candidates"),
        ({"n_rows": 9}, "block size 8"),
    ],
)
def test_wrong_arguments_of_a_walk_change_nothing(open_block, changes, words):
    block = open_block("dflash2", nextn=True)
    refused(block, lambda: lattice(block, **changes), words)


@pytest.mark.parametrize(
    ("form", "nextn", "call", "words"),
    [
        ("dflash2", False, lattice, "nextn tap"),
        ("dflash", False, lattice, "computes no candidates"),
        ("dspark", True, lattice, "computes no candidates"),
        ("dspark", False, lambda block: largest(block, confidence="state"), "nextn tap"),
        ("dflash2", True, lambda block: largest(block, confidence="state"), "candidates"),
    ],
)
def test_what_the_model_does_not_compute_is_refused(open_block, form, nextn, call, words):
    block = open_block(form, nextn=nextn)
    refused(block, lambda: call(block), words)


def test_a_masked_tap_is_not_enough_for_a_walk(open_block):
    block = open_block("dflash2", nextn=True)
    block.context._call("power_context_tap_nextn", 1, 1)
    refused(block, lambda: lattice(block), "unmasked")


def test_python_refuses_what_its_buffers_do_not_hold(open_block):
    block = BlockDraft(open_block("dflash").context, max_rows=4)
    with pytest.raises(ConfigError, match=r"1\.\.4"):
        largest(block)
    with pytest.raises(ConfigError, match="certain"):
        largest(block, n_rows=4, max_tokens=1, confidence="certain")
    for max_rows in (0, -1, 33):
        with pytest.raises(ConfigError, match=r"1\.\.32"):
            BlockDraft(block.context, max_rows=max_rows)


@pytest.mark.parametrize("rows", [ROWS[:0], ROWS[:, :5], ROWS[0]], ids=["no rows", "wrong width", "one dimension"])
def test_feature_rows_that_do_not_fit_are_refused(open_block, rows):
    block = open_block("dflash")
    with pytest.raises(ConfigError):
        block.feed(rows, END)
    assert block.context.length_tokens() == END


def test_a_size_of_another_library_is_refused(open_block):
    context = open_block("dflash").context
    wrong = _raw.power_block(size=4)
    with pytest.raises(NativeCallError) as caught:
        context._call("power_draft_block", ctypes.byref(wrong))
    assert caught.value.status == _raw.POWER_ABI_MISMATCH


def test_only_draft_contexts_without_recurrent_state_draft_blocks(models, open_context):
    settings = ContextSettings(ctx_tokens=64, batch_rows=16, threads=1)
    arguments = {"first_pos": 0, "token": 1, "fill_token": 1, "n_rows": 2, "first_row": 0, "max_tokens": 1}
    with pytest.raises(NativeCallError, match="draft context"):
        BlockDraft(open_context("attention"), max_rows=2).choose_largest(**arguments)
    with models["hybrid"].open_draft_context(settings) as context:
        with pytest.raises(NativeCallError, match="recurrent state"):
            BlockDraft(context, max_rows=2).choose_largest(**arguments)
        assert not context.is_stale()


def test_a_closed_context_is_an_error(open_block):
    block = open_block("dflash")
    block.context.close()
    with pytest.raises(StateError):
        largest(block)


def test_exact_drafts_need_a_shared_head_that_computes_exactly(model_paths, draft_models):
    settings = ContextSettings(ctx_tokens=64, batch_rows=16, threads=1)
    with (
        NativeModel.open(ModelSettings(path=model_paths["hybrid"], arithmetic="fast"), repack_weights=True) as fast,
        fast.open_context(settings) as target,
    ):
        with pytest.raises(ConfigError, match="shared head") as caught:
            draft_models("dflash").open_draft_context(settings, target=target, causal=False)
        assert caught.value.field == "arithmetic"
        draft_models("own").open_draft_context(settings, target=target, causal=False).close()


# ------------------------------------------------------------------ what the library would end the process on


def test_rows_without_causal_attention_are_computed_at_once(open_block):
    with pytest.raises(NativeCallError, match="without causal attention"):
        open_block("dflash", batch_rows=32, ubatch_rows=16)
    assert open_block("dflash", ubatch_rows=32).context.ubatch_rows == 32


def test_a_block_passes_the_graph_in_one_piece(open_block):
    block = open_block("causal", causal=True, ubatch_rows=4)
    assert len(largest(block, n_rows=4, max_tokens=3)[0]) == 3
    with pytest.raises(NativeCallError, match="4 rows computed at once"):
        largest(block)
    assert block.context.length_tokens() == END


def test_blocks_of_all_sequences_share_one_pass(open_block):
    context = open_block("causal", causal=True, sequences=2, ubatch_rows=8).context
    blocks = [SequenceRows(seq_id=seq_id, start_pos=start, tokens=[1] * 6) for seq_id, start in ((0, END), (1, 0))]
    with pytest.raises(NativeCallError, match="12 rows in all exceed the 8 rows"):
        context.evaluate(blocks, kernels="decode")
    assert (context.length_tokens(0), context.length_tokens(1)) == (END, 0)


def test_a_drafter_without_a_head_needs_a_target_to_share_it(draft_models):
    with pytest.raises(NativeCallError, match="`other` must be set"):
        draft_models("dflash").open_draft_context(ContextSettings(ctx_tokens=64, batch_rows=16), causal=False)


def damaged(tmp_path, *, keys=None, types=None, values=None, **form):
    """A draft whose file was changed: keys set to other numbers, tensors to other types or values."""
    path = build_tiny_draft(tmp_path / "draft.gguf", **{"kind": "dspark", **form})
    reader = GGUFReader(path, "r+")
    for name, value in (keys or {}).items():
        reader.fields[name].parts[-1][0] = value
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    for name, value in (types or {}).items():
        tensors[name].field.parts[4][0] = value
    for name, value in (values or {}).items():
        tensors[name].data[0] = value
    for tensor in reader.tensors:
        tensor.data.base.flush()
    return path


I32 = 26


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"keys": {"dflash.block_size": 0}}, "block_size"),
        ({"keys": {"dflash.block_size": 2**31}}, "block_size"),
        ({"draft_vocabulary_tokens": 64, "values": {"d2t": 512}}, "token 512"),
        ({"draft_vocabulary_tokens": 64, "values": {"d2t": -1}}, "token -1"),
        ({"kind": "dflash2", "types": {"blk.1.ffn_conv_base": I32}}, "blk.1.ffn_conv_base"),
    ],
)
def test_files_that_would_end_the_process_are_refused(tmp_path, target, damage, words):
    path = damaged(tmp_path, **damage)
    settings = ContextSettings(ctx_tokens=256, batch_rows=256, threads=1)
    with NativeModel.open(ModelSettings(path=path)) as model, pytest.raises(NativeCallError, match=words):
        model.open_draft_context(settings, target=target, causal=False)
