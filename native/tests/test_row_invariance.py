"""A row of the exact path has the bits of a single row: every weight type, row count, thread count and depth.

Where the kernels that take several rows at once (native/patches/0006) are built in, they are what is tested here.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from power_core.artifacts import scan_header
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.tokens import SequenceRows, TapRequest
from power_native.model import NativeModel
from power_native.quantize import quantize

pytestmark = pytest.mark.native

MOST_ROWS = 16
DEPTHS_TOKENS = (3, 200, 600)  # a few, less and more than one padded block of the attention's memory
WEIGHTS = {
    "F32": {"F32"},
    "F16": {"F16"},
    "BF16": {"BF16"},
    "Q8_0": {"Q8_0"},
    "Q5_0": {"Q5_0"},
    "Q4_0": {"Q4_0"},
    "Q6_K": {"Q6_K"},
    "Q4_K_M": {"Q4_K", "Q6_K"},
    "Q5_K_M": {"Q5_K", "Q6_K"},
}
KINDS = ("attention", "hybrid", "sliding-window")
SHORT = {("attention", weights, threads) for weights in WEIGHTS for threads in (1, 3)} | {
    (kind, weights, 2) for kind in KINDS for weights in ("F32", "Q8_0", "Q4_K_M")
}


CASES = [
    pytest.param(*case, marks=() if case in SHORT else pytest.mark.full)
    for case in itertools.product(KINDS, WEIGHTS, (1, 2, 3))
]


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """Return a function that builds and loads a kind with a weight type, each once."""
    folder = tmp_path_factory.mktemp("row-invariance")
    opened = {}

    def model(kind, weights):
        if (kind, weights) not in opened:
            path = build_tiny_target(folder / f"{kind}.gguf", kind=kind, seed=4)
            if weights != "F32":
                path, source = folder / f"{kind}-{weights}.gguf", path
                quantize(source, path, weights, threads=1)
            assert {tensor.type_name for tensor in scan_header(path).tensors.values()} >= WEIGHTS[weights]
            opened[kind, weights] = NativeModel.open(ModelSettings(path=path, load_nextn=kind == "hybrid"))
        return opened[kind, weights]

    yield model
    for loaded in opened.values():
        loaded.close()


def tokens_of(model, n_tokens):
    return [int(token) for token in np.random.default_rng(7).integers(20, model.info.n_vocab, n_tokens)]


def open_context(model, threads, *, nextn=False, sequences=1):
    settings = ContextSettings(
        sequences=sequences,
        ctx_tokens=max(DEPTHS_TOKENS) + 2 * MOST_ROWS,
        batch_rows=64,
        threads=threads,
        snapshots=MOST_ROWS if model.info.recurrent else 0,
        taps=TapRequest(nextn=nextn),
    )
    return model.open_context(settings)


def prefill(context, tokens):
    context.clear()
    for at in range(0, len(tokens), context.batch_rows):
        rows = SequenceRows(start_pos=at, tokens=tokens[at : at + context.batch_rows], logits="last")
        context.evaluate((rows,), kernels="prefill")


def decode(context, tokens):
    """Evaluate rows on the exact path in one piece; their logits, or their logits and state rows."""
    context.evaluate((SequenceRows(start_pos=context.length_tokens(), tokens=tokens, logits="all"),), kernels="decode")
    found = [context.logits(row).copy() for row in range(len(tokens))]
    if context.taps.nextn:
        found += list(context.read_nextn(0, len(tokens)))
    return np.concatenate(found)


def differing_row_counts(context, tokens):
    """Return the row counts whose rows are not the rows of single-token decoding, bit for bit."""
    mark = context.checkpoint()
    singles = [decode(context, [token]) for token in tokens]
    halves = [np.split(single, [context.model.info.n_vocab]) for single in singles]
    differing = []
    for n_rows in range(1, len(tokens) + 1):
        context.restore(mark)
        together = decode(context, tokens[:n_rows])
        expected = np.concatenate([half[part] for part in (0, 1) for half in halves[:n_rows]])
        if not np.array_equal(together.view(np.uint32), expected.view(np.uint32)):
            differing.append(n_rows)
    return differing


@pytest.mark.parametrize(("kind", "weights", "threads"), CASES)
def test_rows_have_the_bits_of_single_rows(model_of, kind, weights, threads):
    model = model_of(kind, weights)
    tokens = tokens_of(model, max(DEPTHS_TOKENS) + MOST_ROWS)
    with open_context(model, threads) as context:
        for depth in DEPTHS_TOKENS:
            prefill(context, tokens[:depth])
            assert differing_row_counts(context, tokens[depth : depth + MOST_ROWS]) == [], f"{depth} tokens before"


@pytest.mark.parametrize("weights", ["F32", "Q8_0"])
def test_state_rows_have_the_bits_of_single_rows(model_of, weights):
    model = model_of("hybrid", weights)
    tokens = tokens_of(model, 40 + MOST_ROWS)
    with open_context(model, 2, nextn=True) as context:
        prefill(context, tokens[:40])
        assert differing_row_counts(context, tokens[40:]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_several_sequences_have_the_bits_of_single_rows(model_of, kind):
    """Rows of one evaluation lie in one matrix, or in one a sequence where there is recurrent state."""
    model = model_of(kind, "Q8_0")
    tokens = tokens_of(model, 60)
    parts = [(seq_id, tokens[20 * seq_id : 20 * seq_id + 20]) for seq_id in range(3)]
    with open_context(model, 2, sequences=3) as context:
        found = {}
        for together in (False, True):
            for seq_id, part in parts:
                context.clear(seq_id)
                rows = SequenceRows(start_pos=0, seq_id=seq_id, tokens=part[:16], logits="last")
                context.evaluate((rows,), kernels="prefill")
            rest = [
                SequenceRows(start_pos=16 + at, seq_id=seq_id, tokens=part[16 + at : 16 + at + n_rows], logits="all")
                for seq_id, part in parts
                for at, n_rows in ([(0, 4)] if together else [(at, 1) for at in range(4)])
            ]
            batches = [rest] if together else [[rows] for rows in rest]
            found[together] = []
            for batch in batches:
                context.evaluate(batch, kernels="decode")
                found[together] += [
                    context.logits(row).copy() for row in range(sum(len(rows.tokens) for rows in batch))
                ]
        assert np.array_equal(np.stack(found[True]).view(np.uint32), np.stack(found[False]).view(np.uint32))


def test_the_prompt_keeps_the_fast_kernels(model_of):
    """F16 weights are multiplied alike in both arithmetics but for the switch, so the switch is all that can differ."""
    model = model_of("attention", "F16")
    tokens = tokens_of(model, 48)
    with (
        NativeModel.open(ModelSettings(path=model.settings.path, arithmetic="fast")) as fast_model,
        open_context(fast_model, 1) as fast,
        open_context(model, 1) as exact,
    ):
        prefill(fast, tokens)
        prefill(exact, tokens)
        prompt = exact.logits(len(tokens) - 1).copy()
        assert np.array_equal(prompt, fast.logits(len(tokens) - 1))
        exact.clear()
        rows = decode(exact, tokens).reshape(len(tokens), -1)
        assert not np.array_equal(rows[-1], prompt)
        prefill(exact, tokens)
        assert np.array_equal(exact.logits(len(tokens) - 1), prompt)
