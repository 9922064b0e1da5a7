"""Sampled tokens follow the target's distribution: the small form of benchmarks/sampling.py, with fixed seeds."""

import itertools

import attrs
import numpy as np
import pytest

from power_core.sampler import SamplingSettings
from power_core.testing.scripted import ADVERSARIES, adversary
from power_core.testing.statistics import chi_square_p, uniform_p
from power_core.testing.table_target import TableTarget

pytestmark = pytest.mark.native

PROMPT = [40, 73, 110, 32]
REQUESTS = 400
LEAST_P = 1e-4


@pytest.fixture(scope="module")
def target(models):
    target = TableTarget(models["attention"], PROMPT, depth=3)
    yield target
    target.close()


def counts(target, session, sampling, seeds, before=lambda seed: None):
    found = np.zeros(len(target.allowed), dtype=np.int64)
    for seed in seeds:
        before(seed)
        tokens = session.generate(PROMPT, max_tokens=4, sampling=attrs.evolve(sampling, seed=seed)).result().tokens
        found[target.allowed.index(tokens[-1])] += 1
    return found


@pytest.mark.parametrize("drafter", ADVERSARIES)
def test_rounds_sample_as_plain_decoding_does(target, drafter):
    truth = {}
    plain = target.open_session(None)
    speculative = target.open_session(adversary(truth, ADVERSARIES[drafter], target.n_vocab))
    sampling = SamplingSettings(temperature=1.2, logit_bias=target.only)

    def look_up(seed):
        request = attrs.evolve(sampling, seed=seed)
        truth[tuple(PROMPT)] = plain.generate(PROMPT, max_tokens=4, sampling=request).result().tokens

    first = counts(target, plain, sampling, range(REQUESTS))
    second = counts(target, speculative, sampling, range(10**6, 10**6 + REQUESTS), look_up)
    assert chi_square_p(first, second) > LEAST_P, (first, second)


def test_plain_decoding_follows_the_softmax(target):
    """The last of four tokens, against the product of the rows' own probabilities."""
    expected = dict.fromkeys(target.allowed, 0.0)
    for path in itertools.product(target.allowed, repeat=4):
        share = 1.0
        for length in range(4):
            logits = target.context.logits(target.row_of([*PROMPT, *path[:length]])).astype(np.float64)[target.allowed]
            shares = np.exp((logits - logits.max()) / 1.2)
            share *= shares[target.allowed.index(path[length])] / shares.sum()
        expected[path[-1]] += share
    sampling = SamplingSettings(temperature=1.2, logit_bias=target.only)
    found = counts(target, target.open_session(None), sampling, range(REQUESTS))
    shares = np.asarray(list(expected.values()))
    distance = float(((found - REQUESTS * shares) ** 2 / (REQUESTS * shares)).sum())
    assert distance < 23.51, (found, shares * REQUESTS)  # chi-square, 4 degrees of freedom, p = 1e-4


def test_a_drafter_that_bends_the_distribution_is_found():
    """The test of the test: a sampler that takes the draft half of the time is far from the target."""
    random = np.random.default_rng(1)
    honest = np.bincount(random.choice(5, 400, p=[0.4, 0.3, 0.15, 0.1, 0.05]), minlength=5)
    bent = np.bincount(random.choice(5, 400, p=[0.3, 0.4, 0.15, 0.1, 0.05]), minlength=5)
    assert chi_square_p(honest, bent) < LEAST_P
    same = [
        chi_square_p(*(np.bincount(random.choice(5, 120, p=[0.4, 0.3, 0.15, 0.1, 0.05]), minlength=5) for _ in "ab"))
        for _ in range(200)
    ]
    assert uniform_p(same) > 0.01
    assert uniform_p([value**2 for value in same]) < LEAST_P
