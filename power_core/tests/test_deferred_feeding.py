"""Rows held back while nothing is drafted: handed over once, in order, before the next proposal, never lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.deferred_feeding import DeferredFeeding, joined
from power_core.drafter import Drafter, DraftRequest
from power_core.testing.fakes import ScriptedDrafter
from power_core.tokens import CommittedRows, Taps

PROMPT = [1, 2, 3]


def rows(at, *tokens, taps=None):
    return CommittedRows(start_pos=at, tokens=list(tokens), taps=taps)


def opened(most_rows=4):
    inner = ScriptedDrafter(lambda history, limit: history[-1:] * limit)
    feeding = DeferredFeeding(inner, most_rows)
    feeding.begin(PROMPT)
    feeding.process(rows(0, *PROMPT))
    return inner, feeding


def plain_round(feeding, at):
    checkpoint = feeding.checkpoint()
    feeding.process(rows(at, at))
    return checkpoint


def test_it_is_a_drafter():
    assert isinstance(opened()[1], Drafter)


def test_the_prompt_and_drafting_rounds_are_handed_over_at_once():
    inner, feeding = opened()
    assert inner.seen == PROMPT
    feeding.checkpoint()
    feeding.propose(DraftRequest(n_past=3, anchor=9, limit_tokens=2))
    feeding.process(rows(3, 9, 9))
    feeding.accept(1)
    assert inner.seen == [*PROMPT, 9, 9]
    assert inner.accepted == [1]


def test_rows_of_pauses_come_together_before_the_next_proposal():
    inner, feeding = opened()
    for at in (3, 4, 5):
        plain_round(feeding, at)
    assert inner.seen == PROMPT
    feeding.checkpoint()
    feeding.propose(DraftRequest(n_past=6, anchor=7, limit_tokens=1))
    assert inner.seen == [*PROMPT, 3, 4, 5]
    assert len(inner.taps) == 2


def test_no_more_than_the_most_is_held_back():
    inner, feeding = opened(most_rows=4)
    for at in range(3, 7):
        plain_round(feeding, at)
    assert inner.seen == PROMPT
    feeding.checkpoint()
    assert inner.seen == [*PROMPT, 3, 4, 5, 6]


def test_a_new_prompt_forgets_what_was_owed():
    inner, feeding = opened()
    plain_round(feeding, 3)
    feeding.begin(PROMPT)
    feeding.process(rows(0, *PROMPT))
    feeding.checkpoint()
    feeding.propose(DraftRequest(n_past=3, anchor=7, limit_tokens=1))
    assert inner.seen == PROMPT


@pytest.mark.parametrize("fails_at", ["propose", "process"])
def test_a_rollback_takes_back_the_round_and_no_hand_over(fails_at):
    """However long the pause was, the drafter undoes no more than its own round: a short window may not hold more."""
    inner, feeding = opened()
    plain_round(feeding, 3)
    checkpoint = feeding.checkpoint()
    if fails_at == "propose":
        feeding.propose(DraftRequest(n_past=4, anchor=7, limit_tokens=1))
        feeding.process(rows(4, 7, 7))
        assert inner.seen == [*PROMPT, 3, 7, 7]
    else:
        feeding.process(rows(4, 99))
    feeding.restore(checkpoint)
    assert inner.seen == ([*PROMPT, 3] if fails_at == "propose" else PROMPT)
    feeding.checkpoint()
    feeding.propose(DraftRequest(n_past=4, anchor=7, limit_tokens=1))
    assert inner.seen == [*PROMPT, 3]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_hand_over_that_fails_half_way_is_owed_again(monkeypatch, at_once):
    inner, feeding = opened(most_rows=3)
    for at in (3, 4, 5) if at_once else (3, 4):
        plain_round(feeding, at)
    process = inner.process

    def fail_half_way(given):
        process(rows(given.start_pos, *given.tokens[:1]))
        raise RuntimeError("planted")

    monkeypatch.setattr(inner, "process", fail_half_way)
    if at_once:
        with pytest.raises(RuntimeError, match="planted"):
            feeding.checkpoint()
    else:
        checkpoint = feeding.checkpoint()
        with pytest.raises(RuntimeError, match="planted"):
            feeding.propose(DraftRequest(n_past=5, anchor=7, limit_tokens=1))
        feeding.restore(checkpoint)
    assert inner.seen == PROMPT
    monkeypatch.setattr(inner, "process", process)
    feeding.checkpoint()
    n_past = 6 if at_once else 5
    feeding.propose(DraftRequest(n_past=n_past, anchor=7, limit_tokens=1))
    assert inner.seen == [*PROMPT, *range(3, n_past)]


@given(st.lists(st.sampled_from(["plain", "draft", "roll back plain", "roll back draft"]), max_size=60))
def test_every_history_hands_over_every_row_once(history):
    inner, feeding = opened(most_rows=5)
    committed = list(PROMPT)
    for step in [*history, "draft"]:
        checkpoint = feeding.checkpoint()
        at = len(committed)
        if "draft" in step:
            feeding.propose(DraftRequest(n_past=at, anchor=at, limit_tokens=3))
            assert inner.seen == committed
        kept = [at, at + 1] if "draft" in step else [at]
        feeding.process(rows(at, *kept))
        if "roll back" in step:
            feeding.restore(checkpoint)
        else:
            committed += kept
        assert inner.seen == committed[: len(inner.seen)]
    assert inner.seen == committed


def test_taps_are_joined_with_their_rows():
    parts = [
        rows(at, at, taps=Taps(nextn=np.full((1, 2), at, np.float32), layers=np.full((1, 3, 2), at, np.float32)))
        for at in (4, 5)
    ]
    whole = joined(parts)
    assert (whole.start_pos, whole.tokens) == (4, [4, 5])
    assert whole.taps.nextn.tolist() == [[4, 4], [5, 5]]
    assert whole.taps.layers.shape == (2, 3, 2)
    assert joined([rows(4, 4), rows(5, 5)]).taps is None
