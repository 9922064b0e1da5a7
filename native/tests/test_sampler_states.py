"""Every sampler's state: cloned exactly, independent of its copies, restored repeatedly, started over."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings
from power_core.testing.samplings import SAMPLINGS
from power_core.tokens import SequenceRows
from power_native import NativeSampler

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
PROMPT = [72, 101, 108, 108, 111, 32] * 3
EVERY = pytest.mark.parametrize("name", SAMPLINGS)


@pytest.fixture
def context(open_context):
    context = open_context()
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    return context


@pytest.fixture(scope="module")
def copies(models):
    """By name of a sampling: four samplers that are copies of one, and one that shares nothing. All start empty."""
    context = models["attention"].open_context(ContextSettings(ctx_tokens=64, batch_rows=64, threads=1))
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    opened = {}

    def copies_of(name):
        if name not in opened:
            opened[name] = [context.open_sampler(SAMPLINGS[name]) for _ in range(5)]
        *shared, alone = opened[name]
        for sampler in shared:
            sampler.begin([])
            sampler.restore(shared[0].snapshot())
        return shared, alone

    yield copies_of
    context.close()


def started(context, name, **changes):
    sampler = context.open_sampler(attrs.evolve(SAMPLINGS[name], **changes))
    sampler.begin(PROMPT)
    return sampler


def draws(sampler, count=12, first_row=0):
    return [sampler.sample(first_row + index) for index in range(count)]


def test_every_field_is_used_by_some_sampling():
    defaults = SamplingSettings()
    used = {
        field.name
        for field in attrs.fields(SamplingSettings)
        for sampling in SAMPLINGS.values()
        if getattr(sampling, field.name) != getattr(defaults, field.name)
    }
    unused = {field.name for field in attrs.fields(SamplingSettings)} - used
    assert unused == {"dry_base", "dry_sequence_breakers", "grammar_file"}


@EVERY
def test_a_clone_continues_as_its_original_would(context, name):
    sampler = started(context, name)
    assert isinstance(sampler, NativeSampler)
    draws(sampler, 5)
    copies = [sampler.snapshot() for _ in range(3)]
    expected = draws(sampler)
    for copy in copies:
        sampler.restore(copy)
        assert draws(sampler) == expected


@EVERY
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ddddsrb"), st.integers(0, 23)), max_size=60))
def test_copies_do_not_disturb_each_other(copies, name, steps):
    """Four samplers draw, take each other's snapshots and start over in any order; each draws as if it were alone."""
    samplers, alone = copies(name)
    histories = [([], [], []) for _ in samplers]
    snapshot, mark = samplers[0].snapshot(), ([], [], [])
    for which, step, row in steps:
        sampler, (prompt, rows, drawn) = samplers[which], histories[which]
        if step == "d":
            histories[which] = (prompt, [*rows, row], [*drawn, sampler.sample(row)])
        elif step == "s":
            snapshot, mark = sampler.snapshot(), histories[which]
        elif step == "r":
            sampler.restore(snapshot)
            histories[which] = mark
        else:
            sampler.begin(PROMPT[:row])
            histories[which] = (PROMPT[:row], [], [])
    for prompt, rows, drawn in histories:
        alone.begin(prompt)
        assert [alone.sample(row) for row in rows] == drawn


@EVERY
def test_a_copy_outlives_its_original(context, name):
    sampler = started(context, name)
    draws(sampler, 4)
    snapshot = sampler.snapshot()
    expected = draws(sampler)
    other = started(context, name)
    other.restore(snapshot)
    sampler.close()
    del snapshot
    assert draws(other) == expected


@EVERY
def test_begin_starts_over(context, name):
    sampler = started(context, name)
    first = draws(sampler)
    sampler.begin(PROMPT)
    assert draws(sampler) == first


@EVERY
def test_a_snapshot_before_every_draw_moves_nothing(context, name):
    sampler, undisturbed = started(context, name), started(context, name)
    drawn = []
    for row in range(20):
        sampler.snapshot()
        drawn.append(sampler.sample(row))
    assert drawn == draws(undisturbed, 20)


@pytest.mark.parametrize("name", [name for name, sampling in SAMPLINGS.items() if sampling.temperature > 0])
def test_another_seed_gives_other_draws(context, name):
    assert draws(started(context, name), 24) != draws(started(context, name, seed=99), 24)


def test_the_windows_hold_the_last_tokens_of_long_histories(context):
    """More tokens than twice the window: a copy that has to fill its windows again sees the same ones."""
    settings = SamplingSettings(temperature=1.0, frequency_penalty=1.0, repeat_last_n=8, dry_multiplier=1.0, seed=3)
    sampler = context.open_sampler(settings)
    sampler.begin([*PROMPT, *TOKENS, *TOKENS])
    for _ in range(5):
        snapshot = sampler.snapshot()
        expected = draws(sampler, 24)
        sampler.restore(snapshot)
        assert draws(sampler, 24) == expected


def test_a_history_of_any_length_keeps_its_last_tokens(context):
    """The oldest token of the window is the row's likeliest: it stays penalised however long the history is."""
    best = int(context.logits(5).argmax())
    others = [token for token in range(100, 140) if token != best]
    sampler = context.open_sampler(SamplingSettings(repeat_penalty=1e6, repeat_last_n=4))
    for before in range(20):
        sampler.begin([*others[:before], best, *others[20:23]])
        assert sampler.sample(5) != best
        sampler.begin([*others[:before], best, *others[20:24]])
        assert sampler.sample(5) == best
