"""Evaluating rows, and going back: exact or refused."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import (
    Cancelled,
    ConfigError,
    ContextFullError,
    NativeCallError,
    RollbackRefused,
    StateError,
)
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows, TapRequest

pytestmark = pytest.mark.native

PROMPT = [(7 * index + 11) % 400 for index in range(24)]
KINDS = ("attention", "hybrid", "sliding-window")


def feed(context, tokens, *, start_pos=None, seq_id=0, logits="all", kernels="decode"):
    start = context.length_tokens(seq_id) if start_pos is None else start_pos
    context.evaluate([SequenceRows(seq_id=seq_id, start_pos=start, tokens=tokens, logits=logits)], kernels=kernels)


def decoded(context, tokens, seq_id=0):
    """Feed tokens one by one on the exact path; the logits of every row."""
    rows = []
    for token in tokens:
        feed(context, [token], seq_id=seq_id)
        rows.append(context.logits(0).copy())
    return np.stack(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_evaluation_equal_single_rows_bit_for_bit(open_context, kind):
    single, block = open_context(kind), open_context(kind, snapshots=7)
    tokens = [5, 300, 17, 44, 260, 9, 81, 130]
    for context in (single, block):
        feed(context, PROMPT, kernels="prefill", logits="none")
    expected = decoded(single, tokens)
    feed(block, tokens)
    assert np.array_equal(np.stack([block.logits(row) for row in range(len(tokens))]), expected)
    assert [block.argmax(row) for row in range(len(tokens))] == expected.argmax(axis=1).tolist()


def test_argmax_probability_is_the_softmax_of_the_largest(open_context):
    context = open_context()
    feed(context, PROMPT)
    logits = context.logits(3).astype(np.float64)
    token, probability = context.argmax_probability(3)
    assert token == int(logits.argmax())
    assert probability == pytest.approx(1.0 / np.exp(logits - logits.max()).sum(), rel=1e-5)


def test_logits_are_read_only_and_only_where_asked_for(open_context):
    context = open_context()
    feed(context, PROMPT, logits="last")
    view = context.logits(len(PROMPT) - 1)
    assert view.shape == (512,)
    assert view.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    for row in (0, len(PROMPT), -1):
        with pytest.raises(NativeCallError):
            context.logits(row)
        with pytest.raises(NativeCallError):
            context.argmax(row)


def test_a_view_of_logits_keeps_its_context_from_being_collected(models):
    context = models["attention"].open_context(ContextSettings(ctx_tokens=64, batch_rows=32, threads=1))
    feed(context, PROMPT)
    kept, expected, alive = context.logits(3)[5:50], context.logits(3)[5:50].copy(), weakref.ref(context)
    del context
    gc.collect()
    assert alive() is not None
    assert np.array_equal(kept, expected)
    del kept
    gc.collect()
    assert alive() is None


def test_nothing_to_read_before_the_first_evaluation(open_context):
    with pytest.raises(NativeCallError):
        open_context().logits(0)


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ([], "sequences"),
        ([SequenceRows(start_pos=0, tokens=[])], "sequences"),
        ([SequenceRows(start_pos=-1, tokens=[1])], "start_pos"),
        ([SequenceRows(start_pos=0, tokens=[1] * 65)], "num_batch"),
        ([SequenceRows(start_pos=0, tokens=[2**40])], "tokens"),
    ],
)
def test_rows_that_cannot_be_described_are_refused_in_python(open_context, rows, field):
    context = open_context()
    with pytest.raises(ConfigError) as caught:
        context.evaluate(rows, kernels="decode")
    assert caught.value.field == field
    assert context.length_tokens() == 0


@pytest.mark.parametrize(
    "rows",
    [
        SequenceRows(start_pos=3, tokens=[1]),
        SequenceRows(start_pos=0, tokens=[512]),
        SequenceRows(start_pos=0, tokens=[-1]),
        SequenceRows(seq_id=1, start_pos=0, tokens=[1]),
    ],
    ids=["gap", "beyond the vocabulary", "negative token", "unknown sequence"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_would_harm_the_library_are_refused_unevaluated(open_context, kind, rows):
    context = open_context(kind)
    with pytest.raises(NativeCallError) as caught:
        context.evaluate([rows], kernels="decode")
    assert caught.value.symbol == "power_evaluate"
    assert (context.length_tokens(), context.is_stale()) == (0, False)


@pytest.mark.parametrize("kind", KINDS)
def test_full_context_is_refused_and_changes_nothing(open_context, kind):
    context, fresh = open_context(kind, ctx_tokens=26), open_context(kind, ctx_tokens=64)
    for each in (context, fresh):
        feed(each, PROMPT, kernels="prefill", logits="none")
    with pytest.raises(ContextFullError, match="context of 26 tokens"):
        feed(context, [1, 2, 3])
    assert context.check_integrity().length_tokens == len(PROMPT)
    assert np.array_equal(decoded(context, [1, 2]), decoded(fresh, [1, 2]))


@pytest.mark.parametrize("kind", KINDS)
def test_truncate_is_exact_within_the_window(open_context, kind):
    context, fresh = open_context(kind, snapshots=6), open_context(kind)
    for each in (context, fresh):
        feed(each, PROMPT, kernels="prefill", logits="none")
    for kept in (1, 3, 6):
        length = context.length_tokens()
        feed(context, [21, 22, 23, 24, 25, 26, 27])
        assert context.can_truncate(length + kept)
        context.truncate(length + kept)
        decoded(fresh, [21, 22, 23, 24, 25, 26][:kept])
        assert np.array_equal(decoded(context, [60 + kept]), decoded(fresh, [60 + kept]))
        context.check_integrity().raise_if_broken()


def test_hybrid_refuses_what_it_would_answer_wrongly(open_context):
    context, fresh = open_context("hybrid", snapshots=3), open_context("hybrid")
    feed(context, PROMPT, kernels="prefill", logits="none")
    feed(fresh, PROMPT, kernels="prefill", logits="none")
    feed(context, [1, 2, 3, 4, 5])
    feed(fresh, [1, 2, 3, 4, 5])
    end = len(PROMPT) + 5
    assert context.rollback_rows() == 3
    for length in (end - 4, end - 5, 3):
        assert not context.can_truncate(length)
        with pytest.raises(RollbackRefused) as caught:
            context.truncate(length)
        assert caught.value.code == "native.rollback_refused"
    assert np.array_equal(decoded(context, [6]), decoded(fresh, [6]))


def test_hybrid_refuses_to_drop_the_whole_last_evaluation(open_context):
    context = open_context("hybrid", snapshots=6)
    feed(context, PROMPT, kernels="prefill", logits="none")
    feed(context, [1, 2, 3])
    assert context.can_truncate(len(PROMPT) + 1)
    assert not context.can_truncate(len(PROMPT))
    with pytest.raises(RollbackRefused):
        context.truncate(len(PROMPT))


def test_sliding_window_refuses_to_go_behind_what_it_holds(open_context):
    context = open_context("sliding-window", ctx_tokens=1024)
    for _ in range(16):
        feed(context, [(7 * n) % 400 for n in range(40)], kernels="prefill", logits="none")
    first = context.first_pos()
    assert first > 0
    assert context.can_truncate(context.length_tokens() - 1)
    with pytest.raises(RollbackRefused):
        context.truncate(first)


def test_sliding_window_goes_back_to_the_last_whole_window(open_context):
    """The oldest row that is held is the oldest that the next row sees; a lost one would change logits by about 3."""
    context, fresh = (open_context("sliding-window", ctx_tokens=1024) for _ in range(2))
    tokens = [(7 * n) % 400 for n in range(640)]

    def feed_up_to(each, length):
        for at in range(each.length_tokens(), length, 64):
            feed(each, tokens[at : min(at + 64, length)], logits="none")

    for end in range(320, 641, 64):
        feed_up_to(context, end)
        length = end - context.rollback_rows()
        assert context.first_pos() == length - 31 > 0
        fresh.clear()
        feed_up_to(fresh, length)
        context.truncate(length)
        for each in (context, fresh):
            feed(each, [9])
        assert np.array_equal(context.logits(0), fresh.logits(0))
        context.truncate(length)


def test_clear_forgets_everything(open_context):
    context, fresh = open_context("hybrid"), open_context("hybrid")
    feed(context, PROMPT)
    context.clear()
    assert context.length_tokens() == 0
    assert context.first_pos() is None
    assert np.array_equal(decoded(context, PROMPT), decoded(fresh, PROMPT))


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoint_restores_exactly_and_repeatedly(open_context, kind):
    context, fresh = open_context(kind), open_context(kind)
    for each in (context, fresh):
        feed(each, PROMPT, kernels="prefill", logits="none")
    checkpoint = context.checkpoint()
    assert checkpoint.length_tokens == len(PROMPT)
    expected = decoded(fresh, [70, 71])
    for wrong in ([9, 8, 7, 6], [3] * 12):
        feed(context, wrong)
        context.restore(checkpoint)
        assert context.length_tokens() == len(PROMPT)
        assert np.array_equal(decoded(context, [70, 71]), expected)
        context.restore(checkpoint)


def test_checkpoint_of_bytes_is_taken_and_damaged_ones_are_refused(open_context):
    context = open_context("hybrid")
    feed(context, PROMPT)
    checkpoint = context.checkpoint()
    data = bytes(checkpoint.data)
    context.restore(type(checkpoint)(seq_id=0, length_tokens=len(PROMPT), data=data))
    for damaged in (b"", data[:40], b"x" * len(data)):
        with pytest.raises(NativeCallError):
            context.restore(type(checkpoint)(seq_id=0, length_tokens=len(PROMPT), data=damaged))
    assert context.length_tokens() == len(PROMPT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [0, 1, 40])
def test_after_an_abort_the_checkpoint_brings_the_exact_state_back(open_context, kind, nodes):
    context, fresh = open_context(kind, snapshots=6), open_context(kind)
    for each in (context, fresh):
        feed(each, PROMPT, kernels="prefill", logits="none")
    checkpoint = context.checkpoint()
    context.abort_after(nodes)
    with pytest.raises(Cancelled):
        feed(context, [1, 2, 3, 4])
    assert context.is_stale() == (kind == "hybrid")
    if kind == "hybrid":
        with pytest.raises(StateError) as caught:
            feed(context, [1], start_pos=len(PROMPT))
        assert caught.value.code == "state.stale"
    context.restore(checkpoint)
    context.check_integrity().raise_if_broken()
    assert np.array_equal(decoded(context, [1, 2]), decoded(fresh, [1, 2]))


def test_stale_sequence_is_usable_again_after_clear(open_context):
    context, fresh = open_context("hybrid"), open_context("hybrid")
    feed(context, PROMPT)
    context.abort_after(5)
    with pytest.raises(Cancelled):
        feed(context, [1, 2])
    context.clear()
    assert np.array_equal(decoded(context, PROMPT[:4]), decoded(fresh, PROMPT[:4]))


def test_closed_context_fails_in_python(models):
    context = models["attention"].open_context(ContextSettings(ctx_tokens=64, batch_rows=16))
    context.close()
    context.close()
    for operation in (
        lambda: feed(context, [1], start_pos=0),
        lambda: context.logits(0),
        lambda: context.compute_ns,
        context.length_tokens,
        context.abort,
        context.checkpoint,
    ):
        with pytest.raises(StateError) as caught:
            operation()
        assert caught.value.code == "state.closed"


def test_sequences_share_an_evaluation_and_keep_apart(open_context):
    both, alone = open_context(sequences=2), open_context()
    second = [300, 301, 302]
    both.evaluate(
        [SequenceRows(start_pos=0, tokens=PROMPT), SequenceRows(seq_id=1, start_pos=0, tokens=second)], kernels="decode"
    )
    shared = both.logits(len(PROMPT) + 2).copy()
    assert (both.length_tokens(0), both.length_tokens(1)) == (len(PROMPT), 3)
    assert np.array_equal(decoded(alone, second)[-1], shared)
    both.truncate(1, seq_id=1)
    both.clear(0)
    assert (both.length_tokens(0), both.length_tokens(1)) == (0, 1)


def test_taps_are_copies_of_the_rows_asked_for(models, open_context):
    context = models["attention"].open_context(
        ContextSettings(ctx_tokens=64, batch_rows=32, threads=1, taps=TapRequest(layers=(0, 2)))
    )
    feed(context, PROMPT, logits="last")
    taps = context.read_taps(4, 3)
    assert taps.nextn is None
    assert taps.layers.shape == (3, 2, 256)
    kept = taps.layers.copy()
    single = context.read_taps(5, 1)
    assert np.array_equal(single.layers[0], taps.layers[1])
    feed(context, [1, 2])
    assert np.array_equal(taps.layers, kept)
    with pytest.raises(NativeCallError):
        context.read_taps(1, 2)
    context.close()


def test_nextn_taps_cover_rows_without_logits(open_context):
    context = open_context("hybrid", nextn=True)
    feed(context, PROMPT, logits="none", kernels="prefill")
    rows = context.read_taps(0, len(PROMPT)).nextn
    assert rows.shape == (len(PROMPT), 256)
    assert np.all(np.abs(rows).sum(axis=1) > 0)


def test_counters_move_with_evaluations(open_context):
    context = open_context()
    feed(context, PROMPT)
    first = context.compute_ns
    feed(context, [1])
    assert context.evaluations == 2
    assert context.compute_ns > first > 0


@settings(max_examples=25)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("feed"), st.lists(st.integers(0, 511), min_size=1, max_size=8)),
            st.tuples(st.just("truncate"), st.integers(0, 9)),
            st.tuples(st.just("checkpoint"), st.none()),
            st.tuples(st.just("restore"), st.none()),
            st.tuples(st.just("abort"), st.integers(0, 60)),
        ),
        max_size=14,
    )
)
def test_any_history_ends_in_the_state_of_its_committed_tokens(models, history):
    """Whatever was fed, dropped, restored and aborted, the next logits are those of a fresh context."""
    options = ContextSettings(ctx_tokens=256, batch_rows=32, snapshots=4, threads=1)
    with models["hybrid"].open_context(options) as context, models["hybrid"].open_context(options) as fresh:
        tokens, saved = [], (context.checkpoint(), [])
        for action, value in history:
            if action == "feed":
                feed(context, value, start_pos=len(tokens))
                tokens += value
            elif action == "truncate":
                length = max(0, len(tokens) - value)
                if context.can_truncate(length):
                    context.truncate(length)
                    del tokens[length:]
            elif action == "checkpoint":
                saved = (context.checkpoint(), list(tokens))
            elif action == "restore" and tokens[: len(saved[1])] == saved[1]:
                context.restore(saved[0])
                tokens = list(saved[1])
            elif action == "abort":
                before = context.checkpoint()
                context.abort_after(value)
                with pytest.raises(Cancelled):
                    feed(context, [1, 2, 3, 4], start_pos=len(tokens))
                context.restore(before)
            context.check_integrity().raise_if_broken()
        if tokens:
            decoded(fresh, tokens)
        assert np.array_equal(decoded(context, [100, 200]), decoded(fresh, [100, 200]))
