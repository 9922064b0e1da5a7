"""Attention of 1 to 16 decoded rows has the bits of single rows, over the ends of blocks and of the memory's padding.

Where the kernels of native/patches/0007 and 0009 are built in, they are what is tested here. Memories of
quantised types take the path of the library itself, row by row.
"""

from __future__ import annotations

import numpy as np
import pytest
from attention_models import build_attention_model

from power_core.target import ContextSettings, ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.tokens import SequenceRows
from power_native.model import NativeModel

pytestmark = pytest.mark.native

MOST_ROWS = 16
DEPTHS_TOKENS = (0, 55, 250, 505)  # rows that cross blocks of 64 keys, and memories of 256 and 512 cells
PARTS = ("softcap", "alibi", "sinks")
KINDS = ("hybrid", "sliding-window")
SHORT = [
    *((name, "f16", threads) for name in (*PARTS, *KINDS) for threads in (1, 2)),
    *((name, "f32", 2) for name in ("softcap", "hybrid")),
    ("hybrid", "q8_0", 2),
]
FULL = [
    (name, kv_type, threads)
    for name in (*PARTS, *KINDS)
    for kv_type in ("f16", "f32", "q8_0", "q4_0")
    for threads in (1, 2, 3)
    if (name, kv_type, threads) not in SHORT
]


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """Return a function that builds and loads a model, each once."""
    folder = tmp_path_factory.mktemp("row-attention")
    opened = {}

    def model(name):
        if name not in opened:
            path = (
                build_attention_model(folder, name)
                if name in PARTS
                else build_tiny_target(folder / f"{name}.gguf", kind=name, seed=4)
            )
            opened[name] = NativeModel.open(ModelSettings(path=path))
        return opened[name]

    yield model
    for loaded in opened.values():
        loaded.close()


def tokens_of(model, n_tokens):
    return [int(token) for token in np.random.default_rng(7).integers(20, model.info.n_vocab, n_tokens)]


def open_context(model, *, kv_type="f16", threads=1):
    settings = ContextSettings(
        ctx_tokens=max(DEPTHS_TOKENS) + 2 * MOST_ROWS,
        batch_rows=64,
        threads=threads,
        kv_type=kv_type,
        flash_attention="on",
        snapshots=MOST_ROWS if model.info.recurrent else 0,
    )
    return model.open_context(settings)


def evaluate(context, tokens, kernels="decode"):
    """Evaluate in batches, return the logits of all rows as bits."""
    found = []
    for at in range(0, len(tokens), context.batch_rows):
        part = tokens[at : at + context.batch_rows]
        rows = SequenceRows(start_pos=context.length_tokens(), tokens=part, logits="all")
        context.evaluate((rows,), kernels=kernels)
        found += [context.logits(row).view(np.uint32).copy() for row in range(len(part))]
    return found


@pytest.mark.parametrize(
    ("name", "kv_type", "threads"), [*SHORT, *(pytest.param(*case, marks=pytest.mark.full) for case in FULL)]
)
def test_rows_have_the_bits_of_single_rows(model_of, name, kv_type, threads):
    model = model_of(name)
    tokens = tokens_of(model, max(DEPTHS_TOKENS) + MOST_ROWS)
    with open_context(model, kv_type=kv_type, threads=threads) as context:
        for depth in DEPTHS_TOKENS:
            context.clear()
            evaluate(context, tokens[:depth], kernels="prefill")
            mark = context.checkpoint()
            following = tokens[depth : depth + MOST_ROWS]
            singles = [evaluate(context, [token])[0] for token in following]
            differing = []
            for n_rows in range(2, MOST_ROWS + 1):
                context.restore(mark)
                if not np.array_equal(evaluate(context, following[:n_rows]), singles[:n_rows]):
                    differing.append(n_rows)
            assert differing == [], f"{depth} tokens before"


@pytest.mark.parametrize("name", [*PARTS, *KINDS])
def test_threads_and_batches_leave_the_bits_alone(model_of, name):
    """A text decoded 64 rows at a time by one thread, 16 at a time by two, 7 at a time by three."""
    model = model_of(name)
    tokens = tokens_of(model, 330)
    texts = []
    for threads, n_rows in ((1, 64), (2, 16), (3, 7)):
        with open_context(model, threads=threads) as context:
            parts = [tokens[at : at + n_rows] for at in range(0, len(tokens), n_rows)]
            texts.append([row for part in parts for row in evaluate(context, part)])
    assert np.array_equal(texts[0], texts[1])
    assert np.array_equal(texts[0], texts[2])


@pytest.mark.parametrize("name", [*PARTS, *KINDS])
def test_decoding_agrees_with_the_fast_kernels(model_of, name):
    """The kernels of the prompt are upstream's: what both compute differs by rounding alone."""
    model = model_of(name)
    tokens = tokens_of(model, 5 * 64)  # whole batches: fewer rows take other kernels
    with open_context(model, kv_type="f32") as context:
        decoded = np.stack(evaluate(context, tokens)).view(np.float32)
        context.clear()
        prompt = np.stack(evaluate(context, tokens, kernels="prefill")).view(np.float32)
    assert np.abs(decoded - prompt).max() < 5e-3 * np.abs(prompt).max()


def test_keys_that_a_row_does_not_see_leave_no_trace(model_of):
    """Rows that were evaluated and dropped stay in the memory's cells; the rows after them must not notice."""
    model = model_of("alibi")
    tokens = tokens_of(model, 300)
    dropped = tokens_of(model, 320)[300:]
    with open_context(model, threads=2) as context:
        expected = evaluate(context, tokens)
        context.truncate(250)
        evaluate(context, dropped)
        context.truncate(250)
        assert np.array_equal(evaluate(context, tokens[250:260]), expected[250:260])
