"""Samplers together: token by token the draws of the same chain in plain numpy, with the library's random numbers."""

import random
from collections import Counter

import numpy as np
import pytest

from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
EVEN_TOKENS = range(256, 500, 2)  # whole characters: the library refuses halves
EVEN_GRAMMAR = f"root ::= ({' | '.join(f'<[{token}]>' for token in EVEN_TOKENS)})*"


@pytest.fixture(scope="module")
def context(models):
    context = models["attention"].open_context(ContextSettings(ctx_tokens=64, batch_rows=64, threads=1))
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    yield context
    context.close()


class Reference:
    """The documented order, one method per sampler. Candidates are token ids and their logits, in drawing order."""

    def __init__(self, settings, prompt, allowed):
        self.settings = settings
        self.allowed = allowed
        self.history = list(prompt)
        self.draws = np.random.RandomState(settings.seed)
        self.xtc_draws = np.random.RandomState(settings.seed ^ 0x9E3779B9)

    def sample(self, logits):
        token = self.choose(logits, np.ones(len(logits), bool))
        if not self.allowed[token]:
            token = self.choose(logits, self.allowed)
        self.history.append(token)
        return token

    def choose(self, logits, allowed):
        self.ids, self.values = np.arange(len(logits)), logits.copy()
        self.bias()
        self.keep(allowed[self.ids])
        for step in (self.penalties, self.dry, self.top_k, self.typical, self.top_p, self.min_p, self.xtc):
            step()
        return int(self.ids[self.draw()])

    def keep(self, places):
        self.ids, self.values = self.ids[places], self.values[places]

    def shares(self):
        shares = np.exp(self.values - self.values.max())
        return shares / shares.sum()

    def bias(self):
        for token, value in self.settings.logit_bias:
            self.values[token] += np.float32(value)
        self.keep(np.isfinite(self.values))

    def penalties(self):
        settings = self.settings
        counts = Counter(self.history[-settings.repeat_last_n :])
        for place, token in enumerate(self.ids.tolist()):
            if count := counts[token]:
                value = self.values[place]
                value = value * settings.repeat_penalty if value <= 0 else value / settings.repeat_penalty
                self.values[place] = value - count * settings.frequency_penalty - settings.presence_penalty

    def dry(self):
        settings, window = self.settings, self.history[-self.settings.dry_penalty_last_n :]
        longest = Counter()
        for end in range(1, len(window)):
            length = 0
            while length < end and window[end - 1 - length] == window[-1 - length]:
                length += 1
            longest[window[end]] = max(longest[window[end]], length)
        for place, token in enumerate(self.ids.tolist()):
            excess = longest[token] - settings.dry_allowed_length
            if excess >= 0:
                self.values[place] -= settings.dry_multiplier * settings.dry_base**excess

    def sort(self):
        self.keep(np.argsort(-self.values, kind="stable"))

    def top_k(self):
        if self.settings.top_k:
            self.sort()
            self.keep(slice(self.settings.top_k))

    def typical(self):
        if self.settings.typical_p < 1:
            self.sort()
            shares = self.shares()
            order = np.argsort(np.abs(-np.log(shares) + (shares * np.log(shares)).sum()), kind="stable")
            self.keep(order[: 1 + np.searchsorted(np.cumsum(shares[order]), self.settings.typical_p, side="right")])

    def top_p(self):
        if self.settings.top_p < 1:
            self.sort()
            self.keep(slice(1 + np.searchsorted(np.cumsum(self.shares()), self.settings.top_p)))

    def min_p(self):
        if self.settings.min_p:
            self.keep(self.values >= self.values.max() + np.log(self.settings.min_p))

    def xtc(self):
        settings = self.settings
        if not settings.xtc_probability or len(self.ids) < 2:
            return
        if self.xtc_draws.randint(2**32, dtype=np.uint32) / 2**32 <= settings.xtc_probability:
            self.sort()
            self.keep(slice(max(int((self.shares() >= settings.xtc_threshold).sum()) - 1, 0), None))

    def draw(self):
        if not self.settings.temperature:
            return self.values.argmax()
        self.values = self.values / np.float32(self.settings.temperature)
        low, high = self.draws.randint(2**32, size=2, dtype=np.uint32).tolist()
        steps = np.cumsum(np.exp(self.values - self.values.max()).astype(np.float64))
        return np.searchsorted(steps, steps[-1] * ((low + high * 2.0**32) / 2.0**64))


def mixed_settings(seed):
    """Settings with about half of the samplers on; DRY without breakers."""
    rng = random.Random(seed)

    def one_of(off, *values):
        return rng.choice((off, rng.choice(values)))

    return SamplingSettings(
        temperature=rng.choice((0.0, 0.5, 1.0, 1.0, 2.0)),
        top_k=one_of(0, 3, 40, 300),
        top_p=one_of(1.0, 0.3, 0.8, 0.95),
        min_p=one_of(0.0, 0.02, 0.2),
        typical_p=one_of(1.0, 0.3, 0.8),
        repeat_penalty=one_of(1.0, 1.3),
        frequency_penalty=one_of(0.0, 0.4, -0.2),
        presence_penalty=one_of(0.0, 0.5),
        repeat_last_n=rng.choice((3, 16, 64)),
        dry_multiplier=one_of(0.0, 0.7, 3.0),
        dry_base=rng.choice((1.5, 2.0)),
        dry_allowed_length=rng.choice((1, 2)),
        dry_penalty_last_n=rng.choice((6, 24, 64)),
        dry_sequence_breakers=(),
        xtc_probability=one_of(0.0, 0.4, 1.0),
        xtc_threshold=rng.choice((0.01, 0.05, 0.2)),
        logit_bias=one_of({}, {rng.randrange(512): rng.choice((1.5, -2.0, float("-inf"))) for _ in range(40)}),
        grammar=one_of("", EVEN_GRAMMAR),
        seed=rng.randrange(2**32 - 1),
    )


@pytest.mark.parametrize("seed", range(120))
def test_the_chain_draws_as_the_formulas_say(context, seed):
    settings = mixed_settings(seed)
    prompt = random.Random(seed).choices(range(97, 105), k=40)
    vocabulary = context.model.vocabulary
    follows = [not settings.grammar or token in EVEN_TOKENS or vocabulary.is_end(token) for token in range(512)]
    sampler, reference = context.open_sampler(settings), Reference(settings, prompt, np.asarray(follows))
    sampler.begin(prompt)
    rows = [row % 3 for row in range(36)]  # few rows, so that likely tokens repeat
    assert [sampler.sample(row) for row in rows] == [reference.sample(context.logits(row)) for row in rows], settings
    sampler.close()
