"""The heads of a real model: drafts depend on the committed rows alone, whatever the chunks and the rejections."""

import numpy as np
import pytest
from drafter_bench import DRAFT_MAX, LOWEST, same
from sequences_suite import *  # noqa: F403
from sequences_suite import OTHER_PROMPT, PROMPT

from power_core.drafter import DraftRequest
from power_core.errors import Cancelled, NativeError, StateError
from power_core.target import ContextSettings, ModelSettings
from power_core.testing import build_tiny_target
from power_core.tokens import TapRequest
from power_native import NativeModel

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(folder):
    path = build_tiny_target(folder / "hybrid.gguf", kind="hybrid", seed=3)
    with NativeModel.open(ModelSettings(path=path, load_nextn=True)) as model:
        yield model


@pytest.fixture
def bench(model, open_bench):
    return lambda **settings: open_bench(model, **settings)


@pytest.mark.parametrize("chunk", [1, 7, 49])
def test_drafts_after_chunked_prefill_equal_those_after_one_chunk(bench, chunk):
    whole, chunked = bench(), bench()
    anchor = whole.start(PROMPT)
    assert chunked.start(PROMPT, chunk) == anchor
    proposal = whole.propose(anchor, p_min=LOWEST)
    assert len(proposal.tokens) == DRAFT_MAX
    assert np.all((proposal.confidence > 0) & (proposal.confidence <= 1))
    assert same(chunked.propose(anchor, p_min=LOWEST), proposal)


def test_drafts_depend_on_the_rows_that_were_fed(bench):
    one, other = bench(), bench()
    anchor = one.start(PROMPT)
    other.start([*PROMPT[:10], 77, *PROMPT[11:]])
    assert not same(one.propose(anchor), other.propose(anchor))


@pytest.mark.parametrize("accepted", [[0] * 6, [4] * 6, [2, 0, 4, 1, 0, 3]], ids=["zero", "full", "mixed"])
def test_drafts_after_rejections_equal_those_of_a_fresh_drafter(bench, accepted):
    used, fresh = bench(), bench()
    history, anchor = list(PROMPT), used.start(PROMPT, 16)
    for count in accepted:
        kept, anchor = used.round(anchor, count)
        history += kept
        assert used.held_tokens() == len(history)
    assert fresh.start(history) == anchor
    assert same(used.propose(anchor), fresh.propose(anchor))


def test_a_second_request_equals_a_fresh_drafter(bench):
    used, fresh = bench(), bench()
    anchor = used.start(PROMPT)
    for count in (0, 3):
        _, anchor = used.round(anchor, count)
    used.propose(anchor)
    for prompt in (OTHER_PROMPT, PROMPT, OTHER_PROMPT):
        anchor = fresh.start(prompt)
        assert used.start(prompt) == anchor
        assert same(used.propose(anchor), fresh.propose(anchor))


def test_restore_undoes_a_round(bench):
    one = bench()
    anchor = one.start(PROMPT)
    expected = one.propose(anchor)
    target, mark = one.target.checkpoint(), one.drafter.checkpoint()
    one.round(anchor, 2)
    one.target.restore(target)
    one.drafter.restore(mark)
    assert same(one.propose(anchor), expected)


def test_an_aborted_feed_is_undone(bench):
    one = bench()
    anchor = one.start(PROMPT)
    expected = one.propose(anchor)
    mark = one.drafter.checkpoint()
    rows = one.evaluate([anchor, 5, 6])
    one.draft_context.abort_after(3)
    with pytest.raises(Cancelled):
        one.drafter.process(rows)
    one.drafter.restore(mark)
    one.target.truncate(len(PROMPT) + 1)
    request = DraftRequest(n_past=len(PROMPT), anchor=anchor, limit_tokens=DRAFT_MAX)
    assert same(one.drafter.propose(request), expected)


@pytest.mark.parametrize("nodes", [0, 5, 20])
def test_an_aborted_proposal_is_undone(bench, nodes):
    one = bench()
    anchor = one.start(PROMPT)
    expected = one.propose(anchor)
    mark = one.drafter.checkpoint()
    one.draft_context.abort_after(nodes)
    with pytest.raises(Cancelled):
        one.propose(anchor)
    one.drafter.restore(mark)
    assert same(one.propose(anchor), expected)


def test_threshold_stops_before_the_first_unlikely_draft(bench):
    one = bench()
    anchor = one.start(PROMPT)
    whole = one.propose(anchor, p_min=LOWEST)
    for index, probability in enumerate(whole.confidence):
        limit = float(np.nextafter(probability, np.float32(2)))
        kept = next((at for at, value in enumerate(whole.confidence) if value < limit), DRAFT_MAX)
        assert kept <= index
        assert list(one.propose(anchor, p_min=limit).tokens) == list(whole.tokens[:kept])
    assert len(one.propose(anchor, p_min=float(min(whole.confidence))).tokens) == DRAFT_MAX


def test_a_limit_shortens_the_chain(bench):
    one = bench()
    anchor = one.start(PROMPT)
    whole = list(one.propose(anchor).tokens)
    for limit in range(1, DRAFT_MAX + 1):
        assert list(one.propose(anchor, limit).tokens) == whole[:limit]


def test_drafts_up_to_the_last_position(bench):
    one = bench(ctx_tokens=len(PROMPT) + 1 + DRAFT_MAX)
    anchor = one.start(PROMPT)
    assert len(one.propose(anchor).tokens) == DRAFT_MAX
    _, anchor = one.round(anchor, 3)
    assert len(one.propose(anchor, 1).tokens) == 1


def test_closing_the_target_first_closes_the_heads(bench):
    one = bench()
    anchor = one.start(PROMPT)
    one.target.close()
    request = DraftRequest(n_past=len(PROMPT), anchor=anchor, limit_tokens=1)
    with pytest.raises(StateError):
        one.drafter.propose(request)
    one.drafter.close()


def test_the_library_refuses_two_heads_of_this_architecture_too(folder):
    path = build_tiny_target(folder / "two-heads.gguf", kind="hybrid", nextn_layers=2)
    with NativeModel.open(ModelSettings(path=path, load_nextn=True)) as model:
        target = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=16, taps=TapRequest(nextn=True)))
        with pytest.raises(NativeError, match="runs at most 1 nextn blocks, the model has 2"):
            model.open_nextn_context(target)
