"""DRY samplers that are copied from a ready one: the same draws as from a new one, whatever was opened before."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows
from power_native import NativeModel

pytestmark = pytest.mark.native

NEWLINE = 10
PROMPT = [97, NEWLINE, 99, 120, 97, NEWLINE, 99, 130, 98, 99, 120, 98, 99]
TOKENS = [(7 * index + 11) % 400 for index in range(24)]
FEW = {"temperature": 3.0, "logit_bias": dict.fromkeys((97, NEWLINE, 99, 120), 200.0)}
"""Four tokens that repeat each other all the time."""
SETTINGS = [
    {},
    {"dry_sequence_breakers": ()},
    {"dry_sequence_breakers": ("a",)},
    {"dry_sequence_breakers": ("c", "x", "\n:")},
    {"dry_allowed_length": 1},
    {"dry_base": 3.0},
    {"dry_multiplier": 9.0},
    {"dry_penalty_last_n": 5},
]
"""More than a model keeps ready."""


def opened(path):
    model = NativeModel.open(ModelSettings(path=path))
    context = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=32, threads=1))
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    return model, context


def sampling(settings, seed):
    return SamplingSettings(**{**FEW, "dry_multiplier": 1.0, "seed": seed, **settings})


def draws(sampler):
    sampler.begin(PROMPT)
    return [sampler.sample(row % 24) for row in range(192)]


@pytest.fixture(scope="module")
def first_draws(model_paths):
    """What the first sampler of a model draws, by settings and seed."""
    found = {}
    for index, settings in enumerate(SETTINGS):
        for seed in (1, 2):
            model, context = opened(model_paths["attention"])
            found[index, seed] = draws(context.open_sampler(sampling(settings, seed)))
            model.close()
    assert len({tuple(drawn) for drawn in found.values()}) == len(found)
    return found


def test_later_samplers_draw_as_the_first_one_would(model_paths, first_draws):
    model, context = opened(model_paths["attention"])
    order = [(index, seed) for index in range(len(SETTINGS)) for seed in (1, 2)] * 3
    random.Random(0).shuffle(order)
    for index, seed in order:
        assert draws(context.open_sampler(sampling(SETTINGS[index], seed))) == first_draws[index, seed]
    model.close()


def test_a_sampler_outlives_the_one_it_was_copied_from(model_paths, first_draws):
    model, context = opened(model_paths["attention"])
    early = [context.open_sampler(sampling(SETTINGS[2], seed)) for seed in (1, 2)]
    for settings in SETTINGS:
        context.open_sampler(sampling(settings, 1)).close()
    assert [draws(sampler) for sampler in early] == [first_draws[2, 1], first_draws[2, 2]]
    model.close()


def test_threads_may_open_samplers_of_one_model(model_paths, first_draws):
    model, context = opened(model_paths["attention"])
    jobs = [(index, seed) for index in range(len(SETTINGS)) for seed in (1, 2)] * 4
    with ThreadPoolExecutor(4) as threads:
        samplers = list(threads.map(lambda job: context.open_sampler(sampling(SETTINGS[job[0]], job[1])), jobs))
    for job, sampler in zip(jobs, samplers, strict=True):
        assert draws(sampler) == first_draws[job]
    model.close()
