"""What every block drafter keeps on the real library: drafts depend on the committed rows alone.

Imported by the tests of each block drafter's plugin. Confidences are compared bit for bit wherever drafts are.
"""

import attrs
import numpy as np
import pytest
from block_files import FORM_NAMES, TARGETS
from block_reference import BlockReference
from drafter_bench import DRAFT_MAX, LOWEST, same
from sequences_suite import OTHER_PROMPT, PROMPT

from power_core.drafter import DraftRequest
from power_core.errors import Cancelled, StateError
from power_core.tokens import CommittedRows, Taps

BEFORE_RING_END = [(7 * index + 11) % 400 for index in range(495)]
"""A window of 32 tokens is kept in a ring of 256 cells, which ends at 256 and 512 tokens."""
MIXED = [2, 0, 4, 1, 0, 3]


def proposal(one, anchor, **request):
    return one.propose(anchor, p_min=LOWEST, **request)


# ------------------------------------------------------------------------------------------------ what drafts depend on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("chunk", [1, 7, 49])
def test_drafts_after_chunked_prefill_equal_those_after_one_chunk(bench, target, chunk):
    whole, chunked = bench(target), bench(target)
    anchor = whole.start(PROMPT)
    assert chunked.start(PROMPT, chunk) == anchor
    expected = proposal(whole, anchor)
    assert len(expected.tokens) == DRAFT_MAX
    assert np.all((expected.confidence > 0) & (expected.confidence <= 1))
    assert same(proposal(chunked, anchor), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_drafts_are_those_of_the_reference(bench, files, kind, target):
    """Layers side by side in the file's order, the anchor, the mask, the rows that predict: as NumPy has them."""
    one = bench(target, draft_max=7)
    reference = BlockReference(files.draft(kind.name, target), files.target(target))
    one.start(PROMPT)
    features = one.evaluate_again(PROMPT).taps.layers.reshape(len(PROMPT), -1)
    for anchor in (20, 140, 380):
        found = proposal(one, anchor)
        expected = reference.propose(features, anchor, 7, path=list(found.tokens))
        assert len(found.tokens) == 7
        assert expected.shortfalls.max() < 0.3  # nearly tied scores may change places, of a spread of several units
        sure = expected.cut_margins > 0.3 if expected.cut_margins.size else np.full(7, True)
        assert found.confidence[sure] == pytest.approx(expected.confidences[sure], abs=0.06)


def test_a_proposal_is_one_native_call(bench, monkeypatch):
    one = bench()
    anchor = one.start(PROMPT)
    proposal(one, anchor)
    call, symbols = one.draft_context._call_held, []

    def record(symbol, *arguments):
        symbols.append(symbol)
        return call(symbol, *arguments)

    monkeypatch.setattr(one.draft_context, "_call_held", record)
    evaluations = one.draft_context.evaluations
    assert len(proposal(one, anchor).tokens) == DRAFT_MAX
    assert symbols == ["power_draft_block"]
    assert one.draft_context.evaluations == evaluations + 1


@pytest.mark.parametrize("place", [0, 10, 49])
def test_drafts_depend_on_every_row_that_was_fed(bench, place):
    one, other = bench(), bench()
    anchor = one.start(PROMPT)
    other.start([*PROMPT[:place], 77, *PROMPT[place + 1 :]])
    assert not same(proposal(one, anchor), proposal(other, anchor))


def test_a_prompt_wider_than_one_feed_is_fed_whole(bench):
    wide = [(11 * index + 3) % 400 for index in range(200)]
    one, other = bench(ctx_tokens=512, batch_rows=256), bench(ctx_tokens=512, batch_rows=256)
    anchor = one.start(wide, 256)
    assert one.held_tokens() == len(wide)
    assert other.start(wide, 31) == anchor
    assert same(proposal(one, anchor), proposal(other, anchor))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORM_NAMES)
@pytest.mark.parametrize("accepted", [[0] * 6, [4] * 6, MIXED], ids=["zero", "full", "mixed"])
def test_drafts_after_rejections_equal_those_of_a_fresh_drafter(bench, target, form, accepted):
    check_rejections(bench, target, form, accepted)


def check_rejections(bench, target, form, accepted):
    used, fresh = bench(target, form), bench(target, form)
    history, anchor = list(PROMPT), used.start(PROMPT, 16)
    for count in accepted:
        kept, anchor = used.round(anchor, count)
        history += kept
        assert used.held_tokens() == len(history)
    assert fresh.start(history) == anchor
    assert same(proposal(used, anchor), proposal(fresh, anchor))


@pytest.mark.parametrize("form", ["window", "window-below-block"])
def test_drafts_after_rejections_at_the_end_of_the_ring_equal_those_of_a_fresh_drafter(bench, form):
    used, fresh = bench(form=form, ctx_tokens=640), bench(form=form, ctx_tokens=640)
    history, anchor = list(BEFORE_RING_END), used.start(BEFORE_RING_END)
    while len(history) < 530:
        kept, anchor = used.round(anchor, MIXED[len(history) % len(MIXED)])
        history += kept
    assert fresh.start(history) == anchor
    assert same(proposal(used, anchor), proposal(fresh, anchor))


def test_a_second_request_equals_a_fresh_drafter(bench):
    used, fresh = bench(), bench()
    anchor = used.start(PROMPT)
    for count in (0, 3):
        _, anchor = used.round(anchor, count)
    used.propose(anchor)
    for prompt in (OTHER_PROMPT, PROMPT, OTHER_PROMPT):
        anchor = fresh.start(prompt)
        assert used.start(prompt) == anchor
        assert same(proposal(used, anchor), proposal(fresh, anchor))


def test_a_limit_gives_the_block_of_that_width(bench, kind):
    wide = bench(draft_max=kind.most_drafts)
    anchor = wide.start(PROMPT)
    for limit in range(1, kind.most_drafts + 1):
        narrow = bench(draft_max=limit)
        narrow.start(PROMPT)
        assert len(proposal(wide, anchor, limit=limit).tokens) == limit
        assert same(proposal(wide, anchor, limit=limit), proposal(narrow, anchor, limit=limit))


def test_threshold_stops_before_the_first_unlikely_draft(bench):
    one = bench()
    anchor = one.start(PROMPT)
    whole = proposal(one, anchor)
    for index, confidence in enumerate(whole.confidence):
        limit = float(np.nextafter(confidence, np.float32(2)))
        kept = next((at for at, value in enumerate(whole.confidence) if value < limit), DRAFT_MAX)
        assert kept <= index
        assert list(one.propose(anchor, p_min=min(limit, 1.0)).tokens) == list(whole.tokens[:kept])
    assert len(one.propose(anchor, p_min=float(min(whole.confidence))).tokens) == DRAFT_MAX


def test_no_threshold_no_confidence_and_the_same_drafts(bench):
    one = bench()
    anchor = one.start(PROMPT)
    plain = one.propose(anchor)
    assert plain.confidence is None
    assert list(plain.tokens) == list(proposal(one, anchor).tokens)


# --------------------------------------------------------------------------------------------------- going back, aborts


@pytest.mark.parametrize("form", ["plain", "window"])
def test_restore_undoes_a_round(bench, form):
    one = bench(form=form)
    anchor = one.start(PROMPT)
    expected = proposal(one, anchor)
    target, mark = one.target.checkpoint(), one.drafter.checkpoint()
    one.round(anchor, 2)
    one.target.restore(target)
    one.drafter.restore(mark)
    assert one.held_tokens() == len(PROMPT)
    assert same(proposal(one, anchor), expected)


@pytest.mark.parametrize("form", ["window", "window-below-block"])
def test_restore_and_abort_at_the_end_of_the_ring_are_exact(bench, form):
    one = bench(form=form, ctx_tokens=640)
    anchor = one.start(BEFORE_RING_END)
    while one.held_tokens() < 520:
        expected = proposal(one, anchor)
        target, mark = one.target.checkpoint(), one.drafter.checkpoint()
        one.round(anchor, 3)
        one.target.restore(target)
        one.drafter.restore(mark)
        assert same(proposal(one, anchor), expected)
        one.draft_context.abort_after(5)
        with pytest.raises(Cancelled):
            one.propose(anchor)
        one.drafter.restore(mark)
        assert same(proposal(one, anchor), expected)
        _, anchor = one.round(anchor, 1)


def test_an_aborted_feed_is_undone(bench):
    one = bench()
    anchor = one.start(PROMPT)
    expected = proposal(one, anchor)
    mark = one.drafter.checkpoint()
    rows = one.evaluate([anchor, 5, 6])
    one.draft_context.abort_after(3)
    with pytest.raises(Cancelled):
        one.drafter.process(rows)
    one.drafter.restore(mark)
    assert same(proposal(one, anchor, n_past=len(PROMPT)), expected)


@pytest.mark.parametrize("form", ["plain", "window"])
@pytest.mark.parametrize("nodes", [0, 5, 20])
def test_an_aborted_proposal_is_undone(bench, form, nodes):
    one = bench(form=form)
    anchor = one.start(PROMPT)
    expected = proposal(one, anchor)
    mark = one.drafter.checkpoint()
    one.draft_context.abort_after(nodes)
    with pytest.raises(Cancelled):
        one.propose(anchor)
    assert one.held_tokens() == len(PROMPT)
    one.drafter.restore(mark)
    assert same(proposal(one, anchor), expected)


def test_a_feed_that_stops_between_its_evaluations_is_undone(bench):
    one = bench(ctx_tokens=512, batch_rows=256)
    anchor = one.start(PROMPT)
    expected = proposal(one, anchor)
    mark = one.drafter.checkpoint()
    rows = one.evaluate([(3 * index) % 400 for index in range(130)])
    feed, calls = one.draft_context.evaluate_inputs, []

    def stop_at_the_third(**inputs):
        calls.append(len(inputs["embeddings"]))
        if len(calls) == 3:
            one.draft_context.abort()
        feed(**inputs)

    one.draft_context.evaluate_inputs = stop_at_the_third
    with pytest.raises(Cancelled):
        one.drafter.process(rows)
    one.draft_context.clear_abort()
    assert calls[:2] == [32, 32]
    assert one.held_tokens() == len(PROMPT) + 64
    one.drafter.restore(mark)
    assert same(proposal(one, anchor, n_past=len(PROMPT)), expected)


# ----------------------------------------------------------------------------------------------------------------- ends


def test_drafts_up_to_the_last_position(bench):
    one = bench(ctx_tokens=len(PROMPT) + 1 + DRAFT_MAX)
    anchor = one.start(PROMPT)
    assert len(one.propose(anchor).tokens) == DRAFT_MAX
    _, anchor = one.round(anchor, 3)
    assert len(one.propose(anchor, 1).tokens) == 1


def test_closing_the_target_first_closes_the_drafter(bench):
    one = bench()
    anchor = one.start(PROMPT)
    one.target.close()
    with pytest.raises(StateError):
        one.drafter.propose(DraftRequest(n_past=len(PROMPT), anchor=anchor, limit_tokens=1))
    one.drafter.close()


def test_closing_frees_context_and_model_and_may_be_repeated(bench):
    one = bench()
    anchor = one.start(PROMPT)
    rows = one.evaluate([anchor])
    draft_model = one.draft_context.model
    one.drafter.close()
    one.drafter.close()
    assert one.draft_context.closed
    assert draft_model.closed
    assert not one.target.closed
    for call in (
        lambda: one.drafter.begin(PROMPT),
        lambda: one.drafter.process(rows),
        lambda: one.propose(anchor),
        lambda: one.drafter.checkpoint(),
    ):
        with pytest.raises(StateError, match="the drafter is closed"):
            call()


# --------------------------------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize("start", [0, 49, 51])
def test_rows_out_of_order_are_refused_and_change_nothing(bench, start):
    one = bench()
    anchor = one.start(PROMPT)
    expected = proposal(one, anchor)
    rows = one.evaluate([anchor])
    with pytest.raises(StateError, match=f"start at position {start}, expected 50"):
        one.drafter.process(attrs.evolve(rows, start_pos=start))
    assert one.held_tokens() == len(PROMPT)
    assert same(proposal(one, anchor, n_past=len(PROMPT)), expected)


@pytest.mark.parametrize(
    "taps",
    [None, Taps(), Taps(nextn=np.zeros((2, 256), np.float32))]
    + [Taps(layers=np.zeros(shape, np.float32)) for shape in ((1, 3, 256), (2, 2, 256), (2, 3, 128), (2, 768))],
)
def test_rows_without_their_hidden_rows_are_refused(bench, taps):
    one = bench()
    one.drafter.begin([1, 2])
    with pytest.raises(StateError, match=r"expected \(2, 3, 256\)"):
        one.drafter.process(CommittedRows(start_pos=0, tokens=[1, 2], taps=taps))
    assert one.held_tokens() == 0


def test_an_anchor_out_of_step_is_refused(bench):
    one = bench()
    anchor = one.start(PROMPT)
    with pytest.raises(StateError, match="position 49, the drafter was fed 50 rows"):
        one.propose(anchor, n_past=49)
