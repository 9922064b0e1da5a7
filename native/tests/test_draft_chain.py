"""The prediction head's chain: equal to its rows done by hand, without a trace, and refused where it makes no sense."""

import numpy as np
import pytest

from power_core.errors import Cancelled, ConfigError, NativeCallError, StateError
from power_core.tokens import SequenceRows
from power_native import NextnChain

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
END = len(TOKENS)


@pytest.fixture
def target(open_context):
    context = open_context("hybrid", nextn=True, snapshots=4)
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    return context


@pytest.fixture
def states(target):
    """Row i is the target's state before token i; the last one is the state before the anchor."""
    rows = target.read_taps(0, END).nextn
    return np.concatenate([np.zeros((1, 256), np.float32), rows])


@pytest.fixture
def chain(target, states):
    with target.model.open_nextn_context(target, threads=1) as context:
        fed = NextnChain(context, max_tokens=8)
        fed.feed(TOKENS, 0, states[:END])
        yield fed


def draft(chain, target, states, **options):
    options = {"max_tokens": 6, **options}
    return chain.draft(first_pos=END, token=target.argmax(END - 1), state=states[END], **options)


def by_hand(context, token, state, count):
    """The chain as rows of ``evaluate_inputs``."""
    tokens, probabilities = [], []
    for step in range(count):
        context.evaluate_inputs(tokens=[token], states=state, start_pos=END + step, logits="all")
        token, probability = context.argmax_probability(0)
        state = context.read_nextn(0, 1)
        tokens.append(token)
        probabilities.append(probability)
    context.truncate(END)
    return tokens, probabilities


def test_chain_equals_its_rows_by_hand(chain, target, states):
    tokens, probabilities = draft(chain, target, states)
    expected = by_hand(chain.context, target.argmax(END - 1), states[END:], 6)
    assert tokens == expected[0]
    assert probabilities.tolist() == expected[1]
    assert probabilities.dtype == np.float32


def test_chain_leaves_no_trace(chain, target, states):
    first = draft(chain, target, states)
    assert chain.context.length_tokens() == END
    chain.context.check_integrity().raise_if_broken()
    again = draft(chain, target, states)
    assert again[0] == first[0]
    assert np.array_equal(again[1], first[1])


def test_shorter_chain_is_a_prefix(chain, target, states):
    tokens, _ = draft(chain, target, states)
    for count in range(1, 6):
        assert draft(chain, target, states, max_tokens=count)[0] == tokens[:count]


def test_p_min_stops_before_the_first_doubtful_token(chain, target, states):
    tokens, probabilities = draft(chain, target, states)
    smallest = int(probabilities.argmin())
    kept, kept_probabilities = draft(chain, target, states, p_min=float(probabilities[smallest]) + 1e-6)
    stop = next(index for index, value in enumerate(probabilities) if value <= probabilities[smallest])
    assert len(kept) <= stop
    assert kept == tokens[: len(kept)]
    assert np.all(kept_probabilities >= probabilities[smallest])
    assert draft(chain, target, states, p_min=1.0)[0] == []


def test_results_are_owned_copies(chain, target, states):
    tokens, probabilities = draft(chain, target, states)
    kept = probabilities.copy()
    chain.draft(first_pos=END, token=3, state=states[2], max_tokens=6)
    assert np.array_equal(probabilities, kept)
    assert len(tokens) == 6


@pytest.mark.parametrize("split", [1, 7, 23])
def test_feeding_in_pieces_gives_the_same_drafts(chain, target, states, split):
    expected = draft(chain, target, states)
    chain.context.clear()
    chain.feed(TOKENS[:split], 0, states[:split])
    chain.feed(TOKENS[split:], split, states[split:END])
    found = draft(chain, target, states)
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])


def test_states_decide_the_drafts(chain, target, states):
    _, expected = draft(chain, target, states)
    _, found = chain.draft(first_pos=END, token=target.argmax(END - 1), state=states[END] * 3.0 + 1.0, max_tokens=6)
    assert not np.array_equal(found, expected)


@pytest.mark.parametrize("max_tokens", [0, 9, -1])
def test_count_out_of_range_is_refused(chain, target, states, max_tokens):
    with pytest.raises(ConfigError, match=r"1\.\.8"):
        draft(chain, target, states, max_tokens=max_tokens)


def test_shapes_are_checked_before_the_library_reads(chain, states):
    for wrong in (states[:3], states[:2, :100], states[0]):
        with pytest.raises(ConfigError, match="states"):
            chain.feed([1, 2], END, wrong)
    with pytest.raises(ConfigError):
        chain.feed([], END, states[:0])
    assert chain.context.length_tokens() == END


@pytest.mark.parametrize("options", [{"heads": 2}, {"heads": 0}, {"p_min": 2.0}, {"seq_id": 5}])
def test_the_library_refuses_what_it_cannot_do(chain, target, states, options):
    with pytest.raises(NativeCallError):
        draft(chain, target, states, **options)
    assert chain.context.length_tokens() == END


def test_wrong_position_is_refused(chain, states):
    with pytest.raises(NativeCallError, match="first_pos"):
        chain.draft(first_pos=END + 1, token=1, state=states[0], max_tokens=2)
    assert chain.context.length_tokens() == END


def test_aborted_chain_leaves_the_rows_that_were_fed(chain, target, states):
    expected = draft(chain, target, states)
    chain.context.abort_after(3)
    with pytest.raises(Cancelled):
        draft(chain, target, states)
    assert chain.context.length_tokens() == END
    assert draft(chain, target, states)[0] == expected[0]


def test_target_rows_need_no_states_and_heads_do(chain, target):
    with pytest.raises(NativeCallError, match="states"):
        chain.context.evaluate([SequenceRows(start_pos=END, tokens=[1])], kernels="decode")
    with pytest.raises(NativeCallError, match="target context"):
        target.evaluate_inputs(tokens=[1], states=np.zeros((1, 256), np.float32), start_pos=END)
    target.evaluate([SequenceRows(start_pos=END, tokens=[1])], kernels="decode")


def test_a_chain_needs_a_head_context(target, states):
    with pytest.raises(NativeCallError):
        NextnChain(target, max_tokens=2).draft(first_pos=END, token=1, state=states[0], max_tokens=1)


def test_closing_the_target_closes_the_head_first(open_context):
    target = open_context("hybrid", nextn=True)
    context = target.model.open_nextn_context(target)
    target.close()
    assert context.closed
    with pytest.raises(StateError):
        context.length_tokens()
