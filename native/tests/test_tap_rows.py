"""Hidden rows of a target: the inputs of its layers, in the order of the evaluation's rows, however it was computed."""

import ctypes

import numpy as np
import pytest
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import NativeCallError
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows, TapRequest

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
KINDS = ("attention", "hybrid", "sliding-window")


def open_taps(model, *, layers, nextn=False, **options):
    options = {"ctx_tokens": 128, "batch_rows": 64, "threads": 1, **options}
    return model.open_context(ContextSettings(taps=TapRequest(layers=layers, nextn=nextn), **options))


def run(seq_id, start, count):
    return SequenceRows(
        seq_id=seq_id, start_pos=start, tokens=[(7 * row + 40 * seq_id) % 400 for row in range(start, start + count)]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_layers_input_is_the_embedding(models, model_paths, kind):
    (table,) = (tensor.data for tensor in GGUFReader(model_paths[kind]).tensors if tensor.name == "token_embd.weight")
    scale = np.float32(np.sqrt(256) if kind == "sliding-window" else 1)
    with open_taps(models[kind], layers=(0, 1)) as context:
        context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS, logits="last")], kernels="decode")
        layers = context.read_taps(0, len(TOKENS)).layers
    assert np.array_equal(layers[:, 0], table[TOKENS] * scale)
    assert not np.array_equal(layers[:, 1], layers[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_its_own_column_in_the_order_asked_for(models, kind):
    n_layer = models[kind].info.n_layer
    order = tuple(reversed(range(n_layer)))
    with (
        open_taps(models[kind], layers=order) as context,
        open_taps(models[kind], layers=(n_layer - 1,)) as single,
    ):
        for each in (context, single):
            each.evaluate([SequenceRows(start_pos=0, tokens=TOKENS, logits="last")], kernels="decode")
        layers = context.read_taps(0, len(TOKENS)).layers
        last = single.read_taps(0, len(TOKENS)).layers
    assert layers.shape == (len(TOKENS), n_layer, 256)
    assert layers.flags.c_contiguous
    assert np.array_equal(layers[:, :1], last)
    assert len({column.tobytes() for column in layers.transpose(1, 0, 2)}) == n_layer


@pytest.mark.parametrize("kind", KINDS)
def test_taps_do_not_change_the_logits(models, open_context, kind):
    plain = open_context(kind)
    with open_taps(models[kind], layers=(0, 2)) as context:
        for each in (plain, context):
            each.evaluate([SequenceRows(start_pos=0, tokens=TOKENS, logits="last")], kernels="decode")
        assert np.array_equal(context.logits(len(TOKENS) - 1), plain.logits(len(TOKENS) - 1))


@settings(max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    counts=st.permutations([0, 1, 2]).flatmap(
        lambda order: st.tuples(*(st.tuples(st.just(seq_id), st.integers(1, 17)) for seq_id in order))
    ),
    ubatch_rows=st.integers(5, 64),
    snapshots=st.sampled_from([0, 3]),
)
def test_rows_come_in_the_order_of_the_evaluation(models, kind, counts, ubatch_rows, snapshots):
    """The library computes sequences side by side and in pieces; what is read is what was asked, row by row."""
    options = {"layers": (0, 3), "nextn": kind == "hybrid"}
    shape = {"sequences": 3, "ubatch_rows": ubatch_rows, "snapshots": snapshots}
    with open_taps(models[kind], **options, **shape) as many, open_taps(models[kind], **options) as alone:
        many.evaluate([run(seq_id, 0, count) for seq_id, count in counts], kernels="decode")
        taps = many.read_taps(0, sum(count for _, count in counts))
        start = 0
        for seq_id, count in counts:
            alone.clear()
            alone.evaluate([SequenceRows(start_pos=0, tokens=run(seq_id, 0, count).tokens)], kernels="decode")
            expected = alone.read_taps(0, count)
            assert np.array_equal(taps.layers[start : start + count], expected.layers)
            assert np.array_equal(many.logits(start + count - 1), alone.logits(count - 1))
            if kind == "hybrid":
                assert np.array_equal(taps.nextn[start : start + count], expected.nextn)
            start += count


def test_layers_that_are_not_tapped_are_refused(models):
    with open_taps(models["attention"], layers=(1,)) as context:
        context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS, logits="last")], kernels="decode")
        out = (ctypes.c_float * (2 * 256))()
        for layers, words in (((1, 2), "layer 2 is not tapped"), ((9,), "layer 9 is not in"), ((), "n_layers")):
            ids = (ctypes.c_uint32 * max(len(layers), 1))(*layers)
            with pytest.raises(NativeCallError, match=words):
                context._call("power_read_layers", ids, len(layers), 0, 1, out)
        for first, count in ((-1, 1), (0, 0), (0, 25), (24, 1)):
            with pytest.raises(NativeCallError):
                context.read_taps(first, count)
