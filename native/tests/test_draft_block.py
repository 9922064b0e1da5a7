"""A block of drafts in one call: equal to its rows done by hand, without a trace, whatever happens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.errors import Cancelled, ContextFullError, NativeCallError
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.tokens import SequenceRows, TapRequest
from power_native import BlockDraft, NativeModel, _raw

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
END = len(TOKENS)
LAYERS = (1, 2, 3)
DRAFTS = 5
FORMS = ["dflash", "dflash2", "dspark", "dspark-bonus", "own", "causal", "small-vocabulary", "window"]
CONFIDENCES = [("dflash", "softmax"), ("dspark", "softmax"), ("dspark", "state"), ("dflash2", "softmax")]


@pytest.fixture
def target(open_context, models):
    with models["hybrid"].open_context(
        ContextSettings(ctx_tokens=256, batch_rows=64, threads=1, taps=TapRequest(layers=LAYERS))
    ) as context:
        context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
        yield context


@pytest.fixture
def features(target):
    return target.read_taps(0, END).layers.reshape(END, -1)


@pytest.fixture
def open_block(draft_models, target):
    """Return a function that opens a form's ``BlockDraft`` with nothing fed."""
    opened = []

    def open_one(form, **options):
        model = draft_models(form)
        options = {"ctx_tokens": 256, "batch_rows": 16, "threads": 1, **options}
        context = model.open_draft_context(
            ContextSettings(taps=TapRequest(nextn=has_states(form)), **options),
            target=target,
            causal=form == "causal",
            embedding_width=model.traits.n_embd_in,
        )
        opened.append(context)
        return BlockDraft(context, max_rows=8)

    yield open_one
    for context in opened:
        context.close()


def has_states(form):
    return form.startswith("dspark") or form in ("dflash2", "window", "small-vocabulary")


def is_lattice(form):
    return form in ("dflash2", "window")


def shape(form):
    """Rows of a block of DRAFTS drafts, and the row of the first draft."""
    return (DRAFTS, 0) if form in ("dspark", "small-vocabulary") else (DRAFTS + 1, 1)


def mask_of(block):
    return block.context.model.traits.mask_token


def width_of(block):
    return int(block.context.model.metadata("dflash.selector_top_k"))


def draft(block, form, *, first_pos=END, token=7, max_tokens=DRAFTS, confidence="softmax", **options):
    n_rows, first_row = shape(form)
    arguments = {
        "first_pos": first_pos,
        "token": token,
        "fill_token": mask_of(block),
        "n_rows": n_rows,
        "first_row": first_row,
        "max_tokens": max_tokens,
        "confidence": confidence,
        **options,
    }
    if is_lattice(form):
        return block.walk_lattice(width=width_of(block), **arguments)
    return block.choose_largest(**arguments)


def rows_by_hand(block, form, *, token=7, first_pos=END):
    """Evaluate the block's rows; they stay until ``truncate``."""
    n_rows, _ = shape(form)
    tokens = [token] + [mask_of(block)] * (n_rows - 1)
    block.context.evaluate_inputs(tokens=tokens, start_pos=first_pos, logits="none" if is_lattice(form) else "all")
    return n_rows


def by_hand(block, form, **options):
    """Drafts and confidences of a block as rows of ``evaluate_inputs``."""
    n_rows = rows_by_hand(block, form, **options)
    context = block.context
    if is_lattice(form):
        result = walk(context.read_nextn(0, n_rows), width_of(block))
    else:
        result = list(zip(*(context.argmax_probability(row) for row in range(shape(form)[1], n_rows)), strict=True))
    context.truncate(options.get("first_pos", END))
    return list(result[0]), np.asarray(result[1], np.float64)


def walk(states, width):
    """The best successor of each pick, as the lattice is defined."""
    tokens, confidences, predecessor = [], [], 0
    for state in states[1:].astype(np.float64):
        scores = state[width : width + width * width].reshape(width, width)[predecessor]
        predecessor = int(scores.argmax())
        tokens.append(int(state[predecessor]))
        confidences.append(1.0 / np.exp(scores - scores.max()).sum())
    return tokens, confidences


@pytest.mark.parametrize("form", FORMS)
def test_drafts_equal_the_block_done_by_hand(open_block, features, form):
    block = open_block(form)
    block.feed(features, 0)
    tokens, confidences = draft(block, form)
    expected = by_hand(block, form)
    assert tokens == expected[0]
    assert confidences == pytest.approx(expected[1], rel=1e-5)
    assert confidences.dtype == np.float32
    assert len(set(tokens)) > 1


@pytest.mark.parametrize("form", ["dspark", "small-vocabulary"])
def test_confidences_from_state_rows_are_their_first_values(open_block, features, form):
    block = open_block(form)
    block.feed(features, 0)
    tokens, confidences = draft(block, form, confidence="state")
    n_rows = rows_by_hand(block, form)
    assert np.array_equal(confidences, block.context.read_nextn(0, n_rows)[:, 0])
    assert tokens == [block.context.argmax(row) for row in range(n_rows)]
    assert len(set(confidences.tolist())) > 1


@pytest.mark.parametrize("form", FORMS)
def test_drafting_leaves_no_trace(open_block, features, form):
    used, fresh = open_block(form), open_block(form)
    for block in (used, fresh):
        block.feed(features[:20], 0)
    first = draft(used, form, first_pos=20)
    again = draft(used, form, first_pos=20)
    assert again[0] == first[0]
    assert np.array_equal(again[1], first[1])
    assert used.context.length_tokens() == 20
    used.context.check_integrity().raise_if_broken()
    rows = []
    for block in (used, fresh):
        block.feed(features[20:], 20)
        n_rows = rows_by_hand(block, form)
        read = block.context.read_nextn(0, n_rows) if is_lattice(form) else [block.context.logits(0).copy()]
        rows.append(np.concatenate(read))
    assert np.array_equal(*rows)


@pytest.mark.parametrize("form", FORMS)
def test_fewer_drafts_are_a_prefix_of_more(open_block, features, form):
    block = open_block(form)
    block.feed(features, 0)
    tokens, confidences = draft(block, form)
    for count in range(1, DRAFTS):
        found = draft(block, form, max_tokens=count)
        assert found[0] == tokens[:count]
        assert np.array_equal(found[1], confidences[:count])


@pytest.mark.parametrize(("form", "confidence"), CONFIDENCES)
def test_p_min_stops_before_the_first_doubtful_draft(open_block, features, form, confidence):
    block = open_block(form)
    block.feed(features, 0)
    tokens, confidences = draft(block, form, confidence=confidence)
    just_above = np.nextafter(confidences, np.float32(2)).clip(max=1.0)
    for p_min in (*confidences.tolist(), *just_above.tolist()):
        doubtful = np.flatnonzero(confidences < p_min)
        count = int(doubtful[0]) if doubtful.size else DRAFTS
        kept, kept_confidences = draft(block, form, confidence=confidence, p_min=p_min)
        assert kept == tokens[:count]
        assert np.array_equal(kept_confidences, confidences[:count])


def test_without_a_confidence_there_are_none(open_block, features):
    block = open_block("dflash")
    block.feed(features, 0)
    tokens, confidences = draft(block, "dflash", confidence="none")
    assert confidences is None
    assert tokens == draft(block, "dflash")[0]


def test_results_are_owned_copies(open_block, features):
    block = open_block("dflash2")
    block.feed(features, 0)
    tokens, confidences = draft(block, "dflash2")
    kept = (list(tokens), confidences.copy())
    draft(block, "dflash2", token=3)
    assert tokens == kept[0]
    assert np.array_equal(confidences, kept[1])


@pytest.mark.parametrize("form", ["dflash", "dspark", "dflash2"])
def test_the_anchor_and_what_was_fed_decide_the_drafts(open_block, features, form):
    block = open_block(form)
    block.feed(features, 0)
    first, other = draft(block, form)[0], draft(block, form, token=300)[0]
    block.context.clear()
    block.feed(features[::-1].copy(), 0)
    assert draft(block, form)[0] != first
    assert other != first


@pytest.mark.parametrize("form", ["dflash", "dspark", "dflash2", "causal"])
@pytest.mark.parametrize("pieces", [[1] * END, [7, 17], [23, 1]])
def test_feeding_in_pieces_gives_the_same_bits(open_block, features, form, pieces):
    whole, split = open_block(form, batch_rows=32), open_block(form)
    whole.feed(features, 0)
    start = 0
    for piece in pieces:
        split.feed(features[start : start + piece], start)
        start += piece
    expected, found = draft(whole, form), draft(split, form)
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("nodes", [0, 3, 40])
@pytest.mark.parametrize("form", ["dflash", "dspark", "dflash2"])
def test_an_aborted_block_leaves_what_was_fed(open_block, features, form, nodes):
    block = open_block(form)
    block.feed(features, 0)
    expected = draft(block, form)
    block.context.abort_after(nodes)
    with pytest.raises(Cancelled):
        draft(block, form)
    block.context.check_integrity().raise_if_broken()
    assert block.context.length_tokens() == END
    found = draft(block, form)
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("form", ["dflash", "dspark", "dflash2"])
def test_a_nan_is_an_error_and_the_rows_are_dropped(open_block, features, form):
    block, fresh = open_block(form), open_block(form)
    fresh.feed(features, 0)
    damaged = features.copy()
    damaged[5] = np.nan
    block.feed(damaged, 0)
    with pytest.raises(NativeCallError) as caught:
        draft(block, form)
    assert caught.value.status == _raw.POWER_NO_FINITE_LOGIT
    assert (block.context.length_tokens(), block.context.is_stale()) == (END, False)
    block.context.clear()
    block.feed(features, 0)
    assert draft(block, form)[0] == draft(fresh, form)[0]


@pytest.mark.parametrize("form", ["dflash", "dspark", "dflash2"])
def test_two_sequences_keep_apart(open_block, features, form):
    both, alone = open_block(form, sequences=2, batch_rows=32), open_block(form, batch_rows=32)
    second = features[::-1][:10].copy()
    both.feed(features, 0)
    both.feed(second, 0, seq_id=1)
    for _ in range(2):
        first = draft(both, form)
        other = draft(both, form, seq_id=1, first_pos=10)
        assert (both.context.length_tokens(0), both.context.length_tokens(1)) == (END, 10)
    alone.feed(features, 0)
    assert draft(alone, form)[0] == first[0]
    alone.context.clear()
    alone.feed(second, 0)
    assert draft(alone, form, first_pos=10)[0] == other[0]


@pytest.mark.parametrize("form", ["dflash", "dflash2", "dspark"])
def test_a_block_that_does_not_fit_changes_nothing(open_block, features, form):
    n_rows, _ = shape(form)
    block, roomy = open_block(form, ctx_tokens=END + n_rows - 1), open_block(form)
    for each in (block, roomy):
        each.feed(features[: END - 1], 0)
        assert len(draft(each, form, first_pos=END - 1)[0]) == DRAFTS
        each.feed(features[END - 1 :], END - 1)
    with pytest.raises(ContextFullError):
        draft(block, form)
    assert block.context.length_tokens() == END
    block.context.truncate(END - 1)
    roomy.context.truncate(END - 1)
    assert draft(block, form, first_pos=END - 1)[0] == draft(roomy, form, first_pos=END - 1)[0]


def test_a_sliding_window_is_crossed_round_by_round(open_block, features):
    """Blocks come and go far beyond the window; the drafts stay those of a memory that saw no blocks."""
    used, fresh = open_block("window", ctx_tokens=1024), open_block("window", ctx_tokens=1024)
    rows = np.concatenate([np.roll(features, shift, axis=1) for shift in range(30)])
    end = 0
    for step in range(120):
        count = 1 + step % 6
        used.feed(rows[end : end + count], end)
        end += count
        assert len(draft(used, "window", first_pos=end)[0]) == DRAFTS
    fresh.feed(rows[:end], 0)
    assert end > 400
    assert used.context.first_pos() > 0
    assert draft(used, "window", first_pos=end)[0] == draft(fresh, "window", first_pos=end)[0]


def test_a_window_that_fills_its_memory_gives_the_block_back(tmp_path, target, features):
    """The library keeps 248 + 8 rows here: a block may take the place of every row that has left the window."""
    path = build_tiny_draft(tmp_path / "window.gguf", kind="dflash", window_tokens=248)
    settings = ContextSettings(ctx_tokens=1024, batch_rows=8, threads=1)
    with (
        NativeModel.open(ModelSettings(path=path)) as model,
        model.open_draft_context(settings, target=target, causal=False, embedding_width=768) as context,
    ):
        block, end = BlockDraft(context, max_rows=8), 0
        for step in range(120):
            count = 1 + step % 8
            block.feed(features[:count], end)
            end += count
            drafts = block.choose_largest(first_pos=end, token=3, fill_token=511, n_rows=8, first_row=1, max_tokens=7)[
                0
            ]
            assert (len(drafts), context.length_tokens(), context.is_stale()) == (7, end, False)
        assert context.first_pos() > 0


def test_any_causal_model_drafts_blocks(models, open_context):
    """The primitive knows no architecture: a plain model's rows are its own next tokens."""
    options = ContextSettings(ctx_tokens=64, batch_rows=32, threads=1)
    plain = open_context("attention")
    with models["attention"].open_draft_context(options) as context:
        block = BlockDraft(context, max_rows=4)
        for each in (plain, context):
            each.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
        found, _ = block.choose_largest(first_pos=END, token=5, fill_token=9, n_rows=4, first_row=0, max_tokens=4)
        plain.evaluate([SequenceRows(start_pos=END, tokens=[5, 9, 9, 9])], kernels="decode")
        assert found == [plain.argmax(row) for row in range(4)]


@settings(max_examples=20)
@given(
    history=st.lists(
        st.one_of(
            st.tuples(st.just("feed"), st.integers(1, 9)),
            st.tuples(st.just("draft"), st.integers(1, DRAFTS)),
            st.tuples(st.just("abort"), st.integers(0, 40)),
            st.tuples(st.just("truncate"), st.integers(0, 5)),
        ),
        max_size=12,
    ),
    form=st.sampled_from(["dflash", "dflash2", "dspark"]),
)
def test_any_history_ends_in_the_drafts_of_its_committed_rows(draft_models, models, history, form):
    rows = np.random.default_rng(5).standard_normal((128, 768)).astype(np.float32)
    options = ContextSettings(ctx_tokens=256, batch_rows=16, threads=1, taps=TapRequest(nextn=has_states(form)))
    width = draft_models(form).traits.n_embd_in
    with (
        models["hybrid"].open_context(ContextSettings(ctx_tokens=16, batch_rows=16, threads=1)) as target,
        draft_models(form).open_draft_context(options, target=target, causal=False, embedding_width=width) as one,
        draft_models(form).open_draft_context(options, target=target, causal=False, embedding_width=width) as two,
    ):
        block, fresh = BlockDraft(one, max_rows=8), BlockDraft(two, max_rows=8)
        end = 0
        for action, value in history:
            if action == "feed":
                block.feed(rows[end : end + value], end)
                end += value
            elif action == "draft":
                assert len(draft(block, form, first_pos=end, max_tokens=value)[0]) == value
            elif action == "abort":
                block.context.abort_after(value)
                with pytest.raises(Cancelled):
                    draft(block, form, first_pos=end)
            else:
                end = max(0, end - value)
                block.context.truncate(end)
            block.context.check_integrity().raise_if_broken()
        if end:
            fresh.feed(rows[:end], 0)
        assert draft(block, form, first_pos=end)[0] == draft(fresh, form, first_pos=end)[0]
