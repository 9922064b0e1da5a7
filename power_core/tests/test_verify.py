"""verify_block: the accepted prefix, the correction, the bonus, the terminal, and what is never drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.verify import verify_block

TOKENS = st.integers(0, 5)


def run(drafts, truth, terminal=frozenset()):
    drawn, asked = [], []

    def sample(row):
        drawn.append(row)
        return truth[row]

    def is_terminal(token):
        asked.append(token)
        return token in terminal

    return verify_block(drafts, sample, is_terminal), drawn, asked


@given(st.lists(TOKENS, max_size=8), st.data())
def test_emitted_tokens_are_always_the_targets_own(drafts, data):
    truth = data.draw(st.lists(TOKENS, min_size=len(drafts) + 1, max_size=len(drafts) + 1))
    terminal = data.draw(st.frozensets(TOKENS, max_size=2))
    block, drawn, asked = run(drafts, truth, terminal)
    assert list(block.emitted) == truth[: len(block.emitted)]
    assert drawn == list(range(len(drawn)))
    assert list(block.emitted[: block.accepted_tokens]) == drafts[: block.accepted_tokens]
    assert len(block.emitted) == block.accepted_tokens + (block.ending != "terminal")
    assert asked == drafts[: len(asked)]
    assert len(drawn) == len(block.emitted)


def test_rows_after_the_first_mismatch_are_not_drawn():
    block, drawn, asked = run([7, 8, 9], [7, 1, 9, 3])
    assert (block.accepted_tokens, list(block.emitted), block.ending) == (1, [7, 1], "correction")
    assert drawn == [0, 1]
    assert asked == [7]


def test_full_acceptance_adds_one_bonus():
    block, drawn, _ = run([7, 8], [7, 8, 9])
    assert (block.accepted_tokens, list(block.emitted), block.ending) == (2, [7, 8, 9], "bonus")
    assert drawn == [0, 1, 2]


def test_an_accepted_terminal_ends_the_block_without_another_draw():
    block, drawn, _ = run([7, 8, 9], [7, 8, 9, 4], terminal={8})
    assert (block.accepted_tokens, list(block.emitted), block.ending) == (2, [7, 8], "terminal")
    assert drawn == [0, 1]


def test_a_terminal_correction_is_a_correction():
    block, _, asked = run([7], [3, 4], terminal={3})
    assert (block.accepted_tokens, list(block.emitted), block.ending) == (0, [3], "correction")
    assert asked == []


@pytest.mark.parametrize("token", [0, 5])
def test_no_drafts_draws_one_row(token):
    block, drawn, _ = run([], [token])
    assert (block.accepted_tokens, list(block.emitted), block.ending) == (0, [token], "bonus")
    assert drawn == [0]
