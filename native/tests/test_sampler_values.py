"""What each sampler does, against the formulas: which tokens stay possible, and with what probability."""

import numpy as np
import pytest

from power_core.errors import ConfigError, NativeCallError
from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
ROW = 3
SEEDS = 400


@pytest.fixture(scope="module")
def context(models):
    context = models["attention"].open_context(ContextSettings(ctx_tokens=256, batch_rows=64, threads=1))
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    yield context
    context.close()


def logits(context, row=ROW):
    return context.logits(row).astype(np.float64)


def softmax(values):
    shares = np.exp(values - values.max())
    return shares / shares.sum()


def drawn(context, count=SEEDS, row=ROW, **settings):
    """Tokens that a new sampler draws first at a row, one per seed."""
    tokens = []
    for seed in range(count):
        sampler = context.open_sampler(SamplingSettings(temperature=1.0, seed=seed, **settings))
        sampler.begin([])
        tokens.append(sampler.sample(row))
        sampler.close()
    return tokens


def best(values, count):
    return set(np.argsort(values)[::-1][:count].tolist())


def test_top_k_keeps_the_k_largest(context):
    assert set(drawn(context, top_k=6, count=300)) == best(logits(context), 6)


def test_top_p_keeps_the_fewest_that_add_up_to_p(context):
    shares = softmax(logits(context))
    order = np.argsort(shares)[::-1]
    kept = int(np.searchsorted(np.cumsum(shares[order]), 0.3)) + 1
    assert set(drawn(context, top_p=0.3)) <= set(order[:kept].tolist())


def test_min_p_keeps_what_reaches_a_share_of_the_largest(context):
    shares = softmax(logits(context))
    assert set(drawn(context, min_p=0.5)) <= set(np.flatnonzero(shares >= 0.5 * shares.max() * (1 - 1e-5)).tolist())


def test_typical_keeps_what_is_nearest_to_the_entropy(context):
    shares = softmax(logits(context))
    distance = np.abs(-np.log(shares) - -(shares * np.log(shares)).sum())
    order = np.argsort(distance)
    kept = int(np.searchsorted(np.cumsum(shares[order]), 0.2, side="right")) + 1
    assert set(drawn(context, typical_p=0.2)) <= set(order[: kept + 1].tolist())


def test_typical_works_with_tokens_that_have_become_impossible(context):
    """Their probability is 0, whose logarithm the library would take. Of 0.6, 0.3 and 0.1 it keeps the second."""
    values = logits(context)
    shares = {5: 0.6, 17: 0.3, 99: 0.1}
    bias = {token: np.log(shares[token]) - values[token] if token in shares else -1e5 for token in range(512)}
    assert set(drawn(context, typical_p=0.01, logit_bias=bias, count=60)) == {17}


def test_xtc_removes_all_but_the_least_of_the_likely(context):
    shares = softmax(logits(context))
    order = np.argsort(shares)[::-1]
    threshold = float((shares[order[2]] + shares[order[3]]) / 2)
    tokens = drawn(context, xtc_probability=1.0, xtc_threshold=threshold)
    assert not {order[0], order[1]} & set(tokens)
    assert int(order[2]) in tokens
    greedy = context.open_sampler(SamplingSettings(xtc_probability=1.0, xtc_threshold=threshold))
    greedy.begin([])
    assert greedy.sample(ROW) == order[2]


@pytest.mark.parametrize("rule", ["bias", "grammar"])
def test_xtc_never_goes_down_to_what_is_forbidden(context, rule):
    """With threshold 0 everything but the least of what is allowed goes."""
    allowed = [97, 98, 99]
    least = min(allowed, key=lambda token: logits(context)[token])
    settings = {
        "bias": {"logit_bias": {token: -np.inf for token in range(512) if token not in allowed}},
        "grammar": {"grammar": "root ::= " + " | ".join(f"<[{token}]>" for token in allowed)},
    }[rule]
    tokens = set(drawn(context, xtc_probability=1.0, xtc_threshold=0.0, count=20, **settings))
    assert tokens == {least}


def test_xtc_strikes_as_often_as_it_is_told(context):
    order = np.argsort(logits(context))[::-1]
    shares = softmax(logits(context))
    threshold = float((shares[order[1]] + shares[order[2]]) / 2)
    sampler = context.open_sampler(SamplingSettings(xtc_probability=0.25, xtc_threshold=threshold, seed=3))
    sampler.begin([])
    struck = sum(sampler.sample(ROW) != order[0] for _ in range(2000))
    assert abs(struck / 2000 - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_a_bias_moves_the_distribution_by_its_value(context):
    values = logits(context)
    first, second = np.argsort(values)[::-1][:2].tolist()
    only = {token: -np.inf for token in range(512) if token not in (first, second)}
    bias = {**only, second: 1.0}
    sampler = context.open_sampler(SamplingSettings(temperature=1.0, logit_bias=bias, seed=5))
    sampler.begin([])
    share = sum(sampler.sample(ROW) == second for _ in range(4000)) / 4000
    expected = softmax(np.asarray([values[first], values[second] + 1.0]))[1]
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)


def test_a_bias_of_minus_infinity_forbids_and_a_large_one_decides(context):
    largest = int(logits(context).argmax())
    sampler = context.open_sampler(SamplingSettings(logit_bias={largest: float("-inf")}))
    sampler.begin([])
    assert sampler.sample(ROW) != largest
    sampler = context.open_sampler(SamplingSettings(logit_bias={5: 1e6}))
    sampler.begin([])
    assert sampler.sample(ROW) == 5


def test_frequency_counts_and_presence_does_not(context):
    """With the history [x, x] the logit falls by twice the frequency and once the presence penalty."""
    values = logits(context)
    first, second = np.argsort(values)[::-1][:2].tolist()
    gap = float(values[first] - values[second])
    for penalty, history, still_first in (
        ({"frequency_penalty": 0.6 * gap}, [first], True),
        ({"frequency_penalty": 0.6 * gap}, [first, first], False),
        ({"presence_penalty": 0.6 * gap}, [first, first], True),
        ({"presence_penalty": 1.2 * gap}, [first], False),
    ):
        sampler = context.open_sampler(SamplingSettings(**penalty))
        sampler.begin(history)
        assert (sampler.sample(ROW) == first) == still_first


@pytest.mark.parametrize("length", [2, 3, 5])
def test_dry_counts_the_repetition_beyond_what_is_allowed(context, length):
    """After "A x, A" the token x would prolong a repetition of len(A): its logit falls by multiplier x base^excess."""
    values = logits(context)
    first, second = np.argsort(values)[::-1][:2].tolist()
    gap = float(values[first] - values[second])
    start = [97 + index for index in range(length)]
    history = [*start, first, 120, *start]
    for factor, still_first in ((0.9, True), (1.1, False)):
        settings = SamplingSettings(dry_multiplier=factor * gap / 2.0 ** (length - 2), dry_base=2.0)
        sampler = context.open_sampler(settings)
        sampler.begin(history)
        assert (sampler.sample(ROW) == first) == still_first


def test_dry_stops_at_a_breaker_and_at_its_window(context):
    largest = int(logits(context).argmax())
    newline = 10
    start = [97, 98, 99]
    strong = {"dry_multiplier": 100.0, "dry_base": 2.0}
    for history, settings, repeats in (
        ([*start, largest, 120, *start], {}, True),
        ([*start, largest, 120, 97, newline, 99], {}, False),
        ([*start, largest, 120, *start], {"dry_penalty_last_n": 5}, False),
        ([97, newline, 99, largest, 120, 97, newline, 99], {}, False),
        ([97, newline, 99, largest, 120, 97, newline, 99], {"dry_sequence_breakers": ()}, True),
    ):
        sampler = context.open_sampler(SamplingSettings(**strong, **settings))
        sampler.begin(history)
        assert (sampler.sample(ROW) != largest) == repeats, (history, settings)


def test_temperature_flattens(context):
    values = logits(context)
    for temperature in (0.5, 2.0):
        sampler = context.open_sampler(SamplingSettings(temperature=temperature, top_k=2, seed=1))
        sampler.begin([])
        largest = int(values.argmax())
        share = sum(sampler.sample(ROW) == largest for _ in range(2000)) / 2000
        pair = np.sort(values)[::-1][:2] / temperature
        assert abs(share - softmax(pair)[0]) < 5 * np.sqrt(0.25 / 2000)


def test_nothing_left_to_choose_is_an_error_that_moves_nothing_else(context):
    sampler = context.open_sampler(SamplingSettings(logit_bias=dict.fromkeys(range(512), -np.inf)))
    sampler.begin([])
    with pytest.raises(NativeCallError, match=f"row {ROW}"):
        sampler.sample(ROW)


@pytest.mark.parametrize("token", [512, 2**31 - 1])
def test_a_bias_outside_the_vocabulary_is_refused(context, token):
    with pytest.raises(ConfigError) as caught:
        context.open_sampler(SamplingSettings(logit_bias={token: 1.0}))
    assert caught.value.field == "logit_bias"
    assert caught.value.allowed == "0..511"
