"""Samplers: deterministic for a seed, one draw per call, and exactly restorable."""

import numpy as np
import pytest

from power_core.errors import ConfigError, NativeCallError, StateError
from power_core.sampler import Sampler, SamplingSettings
from power_core.tokens import SequenceRows
from power_native import GreedySampler, NativeSampler

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
WARM = SamplingSettings(temperature=1.5, seed=7)
CHAIN = SamplingSettings(
    temperature=1.3,
    top_k=200,
    top_p=0.98,
    min_p=0.001,
    typical_p=0.99,
    repeat_penalty=1.3,
    presence_penalty=0.2,
    seed=5,
)


@pytest.fixture
def context(open_context):
    context = open_context()
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    return context


def draws(sampler, count=12):
    return [sampler.sample(row) for row in range(count)]


def test_greedy_settings_give_a_sampler_without_state(context):
    sampler = context.open_sampler(SamplingSettings())
    assert isinstance(sampler, GreedySampler)
    assert isinstance(sampler, Sampler)
    sampler.begin(TOKENS)
    assert draws(sampler) == [int(context.logits(row).argmax()) for row in range(12)]
    assert sampler.snapshot() is None
    sampler.restore(None)
    sampler.close()


@pytest.mark.parametrize("settings", [WARM, CHAIN])
def test_a_seed_gives_the_same_draws_and_another_seed_others(context, settings):
    sampler = context.open_sampler(settings)
    assert isinstance(sampler, NativeSampler)
    assert isinstance(sampler, Sampler)
    sampler.begin(TOKENS)
    first = draws(sampler)
    again = context.open_sampler(settings)
    again.begin(TOKENS)
    assert draws(again) == first
    assert len(set(first)) > 1
    other = context.open_sampler(SamplingSettings(temperature=1.5, seed=8))
    other.begin(TOKENS)
    assert draws(other) != first


def test_begin_starts_over(context):
    sampler = context.open_sampler(CHAIN)
    sampler.begin(TOKENS)
    first = draws(sampler)
    sampler.begin(TOKENS)
    assert draws(sampler) == first


@pytest.mark.parametrize("settings", [WARM, CHAIN])
def test_snapshot_and_restore_are_exact_and_repeatable(context, settings):
    sampler = context.open_sampler(settings)
    sampler.begin(TOKENS)
    draws(sampler, 5)
    snapshot = sampler.snapshot()
    expected = draws(sampler)
    for _ in range(3):
        sampler.restore(snapshot)
        assert draws(sampler) == expected


def test_a_draw_moves_the_state_once(context):
    """Drawing n times and once more equals the sequence of n + 1 draws: no call draws twice or not at all."""
    whole = context.open_sampler(WARM)
    whole.begin([])
    expected = [whole.sample(0) for _ in range(20)]
    for cut in (1, 7, 19):
        sampler = context.open_sampler(WARM)
        sampler.begin([])
        assert [sampler.sample(0) for _ in range(cut)] == expected[:cut]
        snapshot = sampler.snapshot()
        assert sampler.sample(0) == expected[cut]
        sampler.restore(snapshot)
        assert sampler.sample(0) == expected[cut]


def test_snapshot_alone_moves_nothing(context):
    sampler, undisturbed = context.open_sampler(WARM), context.open_sampler(WARM)
    for each in (sampler, undisturbed):
        each.begin([])
    drawn = []
    for row in range(10):
        sampler.snapshot()
        drawn.append(sampler.sample(row))
    assert drawn == draws(undisturbed, 10)


def test_prompt_counts_for_penalties(context):
    settings = SamplingSettings(repeat_penalty=1e6)
    row = 5
    best = int(context.logits(row).argmax())
    sampler = context.open_sampler(settings)
    sampler.begin([])
    assert sampler.sample(row) == best
    assert sampler.sample(row) != best
    sampler.begin([best])
    assert sampler.sample(row) != best


@pytest.mark.parametrize("repeat_last_n", [-1, 33, 2048])
def test_penalties_look_back_on_the_whole_context_at_most(open_context, repeat_last_n):
    context = open_context(ctx_tokens=32)
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    best = int(context.logits(5).argmax())
    others = [token for token in range(100, 140) if token != best]
    sampler = context.open_sampler(SamplingSettings(repeat_penalty=1e6, repeat_last_n=repeat_last_n))
    sampler.begin([best, *others[:31]])
    assert sampler.sample(5) != best
    sampler.begin([best, *others[:32]])
    assert sampler.sample(5) == best


def test_draws_follow_the_distribution(context):
    """2,000 draws against the softmax of the row: total variation within what chance allows."""
    logits = context.logits(3).astype(np.float64) / 1.5
    expected = np.exp(logits - logits.max())
    expected /= expected.sum()
    sampler = context.open_sampler(WARM)
    sampler.begin([])
    counts = np.bincount([sampler.sample(3) for _ in range(2000)], minlength=512)
    likely = np.argsort(expected)[-10:]
    deviation = np.abs(counts[likely] / 2000 - expected[likely])
    assert np.all(deviation < 5 * np.sqrt(expected[likely] * (1 - expected[likely]) / 2000))


def test_row_without_logits_is_refused(context):
    sampler = context.open_sampler(WARM)
    sampler.begin([])
    with pytest.raises(NativeCallError):
        sampler.sample(len(TOKENS))


def test_seed_that_means_random_is_refused(context):
    with pytest.raises(ConfigError) as caught:
        context.open_sampler(SamplingSettings(temperature=1.0, seed=2**32 - 1))
    assert caught.value.field == "seed"


def test_replaced_states_and_dropped_snapshots_are_freed(context):
    sampler = context.open_sampler(WARM)
    sampler.begin([])
    before = len(context._resource._children)
    for _ in range(50):
        snapshot = sampler.snapshot()
        sampler.restore(snapshot)
    del snapshot
    assert len(context._resource._children) == before


def test_closing_twice_and_closing_the_context_first(open_context):
    context = open_context()
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    sampler, other = context.open_sampler(WARM), context.open_sampler(WARM)
    sampler.close()
    sampler.close()
    with pytest.raises(StateError) as caught:
        sampler.sample(0)
    assert caught.value.code == "state.closed"
    context.close()
    with pytest.raises(StateError):
        other.sample(0)
    other.close()
