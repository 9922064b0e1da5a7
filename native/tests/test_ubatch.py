"""Rows computed at once: how many they are changes the memory that is needed, and nothing else on the exact path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import ConfigError, NativeCallError
from power_core.target import ContextSettings
from power_core.testing.parity import reference, run_parity, text_prompts
from power_core.tokens import SequenceRows

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(600)]


def opened(model, **options):
    return model.open_context(ContextSettings(**{"ctx_tokens": 640, "batch_rows": 512, "threads": 1, **options}))


def exact_logits(context):
    """Logits of a prompt of 512 rows, then of 8 rows, on the exact path."""
    rows = []
    for start, count in ((0, 512), (512, 8)):
        tokens = TOKENS[start : start + count]
        context.evaluate([SequenceRows(start_pos=start, tokens=tokens, logits="all")], kernels="decode")
        rows += [context.logits(row).copy() for row in (*range(0, count, 37), count - 1)]
    return np.stack(rows)


def test_exact_rows_do_not_depend_on_the_rows_beside_them(models):
    found = []
    for ubatch_rows in (1, 7, 32, 512):
        with opened(models["attention"], ubatch_rows=ubatch_rows) as context:
            assert (context.batch_rows, context.ubatch_rows) == (512, ubatch_rows)
            found.append(exact_logits(context))
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("snapshots", [0, 5])
def test_recurrent_state_is_carried_across_passes_and_rolled_back_exactly(models, snapshots):
    found = []
    for ubatch_rows in (7, 32, 512):
        with opened(models["hybrid"], ubatch_rows=ubatch_rows, snapshots=snapshots) as context:
            rows = [exact_logits(context)]
            assert context.rollback_rows() == snapshots
            context.truncate(520 - snapshots)
            context.evaluate([SequenceRows(start_pos=520 - snapshots, tokens=[1, 2, 3])], kernels="decode")
            rows.append(context.logits(2)[None].copy())
            found.append(np.concatenate(rows))
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_fewer_rows_at_once_need_less_memory(models):
    with opened(models["attention"], ubatch_rows=16) as small, opened(models["attention"]) as large:
        assert small.memory_bytes < large.memory_bytes


@pytest.mark.parametrize("options", [{"ubatch_rows": 513}, {"ubatch_rows": 2, "sequences": 3, "ctx_tokens": 64}])
def test_rows_that_the_library_would_end_the_process_on_are_refused(models, options):
    with pytest.raises(NativeCallError, match="physical_rows"):
        opened(models["attention"], **options)


@pytest.mark.parametrize(("ubatch_rows", "snapshots"), [(6, 5), (-1, 0)])
def test_rows_out_of_range_are_named(models, ubatch_rows, snapshots):
    with pytest.raises(ConfigError) as caught:
        opened(models["hybrid"], ubatch_rows=ubatch_rows, snapshots=snapshots)
    assert caught.value.field == "num_ubatch"


def test_sessions_give_the_same_tokens_for_every_number_of_rows(model_paths):
    prompts = text_prompts(2)
    settings = {"ctx": 512, "threads": 1}
    first, *others = (
        reference(model_paths["attention"], prompts, 24, ubatch=ubatch, **settings) for ubatch in (1, 7, 32, 512)
    )
    assert all(other == first for other in others)


@pytest.mark.parametrize("kind", ["attention", "hybrid", "sliding-window"])
@pytest.mark.parametrize("ubatch", [6, 13])
def test_speculation_equals_plain_decoding_with_the_same_rows_at_once(model_paths, kind, ubatch):
    common = {"ctx": 256, "batch": 64, "ubatch": ubatch, "threads": 1}
    truth = reference(model_paths[kind], text_prompts(3), 40, **common)
    run = run_parity(model_paths[kind], truth, "partial", "scripted", draft_max=9, snapshots=4, **common)
    assert run.differing == ()
    assert 0 < run.accepted_tokens < run.drafted_tokens


@settings(max_examples=30)
@given(
    counts=st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=4),
    order=st.permutations([0, 1, 2]),
    ubatch_rows=st.integers(5, 32),
    data=st.data(),
)
def test_sequences_that_share_passes_roll_back_exactly(models, counts, order, ubatch_rows, data):
    """The library moves recurrent state between passes; rows are given back only where it can still be trusted."""
    with (
        opened(
            models["hybrid"], ctx_tokens=64, batch_rows=32, ubatch_rows=ubatch_rows, sequences=3, snapshots=3
        ) as many,
        opened(models["hybrid"], ctx_tokens=64, batch_rows=32) as alone,
    ):
        held = {0: [], 1: [], 2: []}
        for step, wanted in enumerate(counts):
            runs = []
            for seq_id in order[step % 3 :] + order[: step % 3]:
                tokens = [(31 * seq_id + 7 * step + 5 * row) % 400 for row in range(wanted[seq_id])]
                if tokens:
                    runs.append(SequenceRows(seq_id=seq_id, start_pos=len(held[seq_id]), tokens=tokens, logits="last"))
                    held[seq_id] = held[seq_id] + tokens
            if not runs:
                continue
            many.evaluate(runs, kernels="decode")
            for seq_id in held:
                rows = many.rollback_rows(seq_id)
                dropped = data.draw(st.integers(0, rows), label=f"drop of {seq_id}")
                if dropped:
                    held[seq_id] = held[seq_id][:-dropped]
                    many.truncate(len(held[seq_id]), seq_id)
        for seq_id, tokens in held.items():
            alone.clear()
            for token in [*tokens, 9]:
                position = alone.length_tokens()
                alone.evaluate([SequenceRows(start_pos=position, tokens=[token])], kernels="decode")
            many.evaluate([SequenceRows(seq_id=seq_id, start_pos=len(tokens), tokens=[9])], kernels="decode")
            assert np.array_equal(many.logits(0), alone.logits(0))
