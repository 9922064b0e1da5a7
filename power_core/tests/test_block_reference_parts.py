"""The parts of the reference on numbers worked out by hand, with sizes that all differ."""

import math

import numpy as np
import pytest
from block_reference_heads import choose_largest, markov_chain, walk
from block_reference_layers import attend, convolve, rms_norm, rope, visible


class Tables:
    """Stands in for a file: keys and tensors by name."""

    def __init__(self, sizes=None, weights=None, windows=None):
        self._sizes, self._weights, self._windows = sizes or {}, weights or {}, windows

    def size(self, name, default=None):
        return self._sizes.get(name, default)

    def weight(self, name):
        return np.asarray(self._weights[name], dtype=np.float64)

    def optional(self, name):
        return self.weight(name) if name in self._weights else None

    def window_tokens(self, block):
        return self._windows[block] if self._windows else None


def test_convolution_reads_its_own_side_tap_and_group_and_nothing_before_the_block():
    rows = np.asarray([[1.0, 2, 3, 4], [5, 6, 7, 8], [1, 0, 1, 0]])
    base = np.zeros((2, 3, 4))
    base[1, 0] = 1.0
    base[1, 2, 3] = 100.0
    dynamic = np.zeros((3, 2 * 3 * 2))
    dynamic[2, 6 + 2 * 1 + 0] = 10.0  # side 1, tap 1, group 0
    dynamic[0, 6 + 2 * 2 + 1] = 7.0  # side 1, tap 2, group 1: before the block
    dynamic[1, 2 * 0 + 0] = 9.0  # side 0
    expected = [[1, 2, 3, 4], [5, 6, 7, 8], [1 + 50, 0 + 60, 1, 0 + 400]]
    assert convolve(rows, dynamic, base, 1, 2).tolist() == expected


def test_walk_weighs_pairs_among_the_best_tokens_only():
    file = Tables(
        {"selector_top_k": 2},
        {
            "selector_hidden.weight": [[1, 0], [0, 1], [1, 1]],
            "selector_predecessor.weight": [[1, 0, 1], [9, 9, 9], [0, 1, 2], [9, 9, 9]],
            "selector_successor.weight": [[0, 0, 0], [1, 0, 0], [0, 0, 1], [5, 5, 5]],
        },
    )
    rows = np.asarray([[1.0, 2], [1, 0]])
    logits = np.asarray([[0.0, 2, 1, -1], [1, 0, 5, 4]])
    choices = walk(file, rows, logits, 0)
    assert choices.tokens == [2, 3]  # 3 + 1 beats 1 + 2; then 10 + 4 beats 2 + 5
    assert choices.confidences == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-7))])


def markov_tables(**more):
    tables = {"markov_w1.weight": [[1, 0], [0, 1], [2, 2]], "markov_w2.weight": [[0, 3], [4, 0], [1, 1]], **more}
    return Tables(weights=tables)


def test_markov_chain_shifts_each_row_by_the_choice_before():
    logits = np.zeros((3, 3))
    choices = markov_chain(markov_tables(), np.zeros((3, 5)), logits, 0, None)
    assert choices.tokens == [1, 0, 1]
    assert logits.tolist() == [[0, 4, 1], [3, 0, 1], [0, 4, 1]]
    assert choices.confidences is None


def test_markov_chain_follows_a_path():
    logits = np.zeros((2, 3))
    choices = markov_chain(markov_tables(), np.zeros((2, 5)), logits, 0, [2, 2])
    assert choices.tokens == [1, 1]
    assert choices.shortfalls == [3, 4]
    assert logits[1].tolist() == [6, 8, 4]


def test_markov_confidence_sees_the_row_then_the_token_before():
    file = markov_tables(**{"conf_proj.weight": [[1, 0, 0, 0, 0, 0, 2]], "conf_proj.bias": [0.5]})
    choices = markov_chain(file, np.asarray([[3.0, 9, 9, 9, 9], [0, 9, 9, 9, 9]]), np.zeros((2, 3)), 0, None)
    assert choices.confidences == pytest.approx([1 / (1 + math.exp(-3.5)), 1 / (1 + math.exp(-2.5))])


def test_largest_logit_and_its_probability():
    choices = choose_largest(np.asarray([[0.0, 1.0, -np.inf], [2.0, 2.0, 2.0]]), None)
    assert choices.tokens == [1, 0]
    assert choices.confidences == pytest.approx([1 / (1 + math.exp(-1)), 1 / 3])


def test_window_and_causality():
    queries, keys = [3, 4], range(5)
    assert visible(Tables(), 0, queries, keys).all()
    windowed = visible(Tables(windows=[2, None]), 0, queries, keys)
    assert windowed.tolist() == [[False, False, True, True, True], [False, False, False, True, True]]
    assert visible(Tables(windows=[2, None]), 1, queries, keys).all()
    causal = visible(Tables({"attention.causal": True}), 0, queries, keys)
    assert causal.tolist() == [[True] * 4 + [False], [True] * 5]


def test_attention_shares_keys_between_heads_and_a_sink_takes_weight():
    queries, keys = np.zeros((1, 4, 2)), np.zeros((3, 2, 2))
    values = np.arange(12.0).reshape(3, 2, 2)
    seen = np.asarray([[True, False, True]])
    plain = attend(queries, keys, values, seen, None)
    assert plain[0].tolist() == [[4, 5], [4, 5], [6, 7], [6, 7]]
    sinks = np.log([2.0, 1e-30, 2.0, 1e-30])
    assert attend(queries, keys, values, seen, sinks)[0].tolist() == [[2, 2.5], [4, 5], [3, 3.5], [6, 7]]


def test_rope_turns_pairs_half_a_head_apart_by_the_position():
    file = Tables({"rope.dimension_count": 4, "rope.freq_base": 100.0, "rope.dimension_sections": [2, 0, 0, 0]})
    heads = np.asarray([[[1.0, 1, 0, 0, 7]], [[1, 1, 0, 0, 7]]])
    turned = rope(heads, [0, 3], file)
    assert turned[0].tolist() == heads[0].tolist()
    assert turned[1, 0] == pytest.approx([math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3), 7])


def test_norm():
    assert rms_norm(np.asarray([[3.0, 4.0]]), np.asarray([1.0, 2.0]), 0.0) == pytest.approx(
        np.asarray([[3.0, 8.0]]) / math.sqrt(12.5)
    )
