"""benchmarks/sampling.py: its cells cover every sampler, go on where they were stopped, and find what is bent."""

import importlib
import json
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

from power_core.sampler import SamplingSettings
from power_core.testing.samplings import SAMPLINGS
from power_core.testing.statistics import permuted_p, uniform_p
from power_core.testing.table_target import TableTarget

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def sampling(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("sampling")


@pytest.fixture(scope="module")
def target(models):
    target = TableTarget(models["attention"], [40, 73, 110, 32], depth=3)
    yield target
    target.close()


def used(settings):
    """What is switched on, the temperature and its seed aside, and the biases that every cell has."""
    defaults, names = SamplingSettings(), {field.name for field in attrs.fields(SamplingSettings)}
    return {
        name
        for name in names - {"temperature", "seed", "logit_bias", "xtc_threshold"}
        if getattr(settings, name) != getattr(defaults, name)
    }


def last_tokens(random, shares, count=120):
    """Samples of two columns: the first is always the same, the second follows ``shares``."""
    return np.stack([np.zeros(count, dtype=np.int64), random.choice(len(shares), count, p=shares)], axis=1)


@pytest.mark.parametrize("shares", [[0.4, 0.3, 0.2, 0.1], [0.995, 0.005], [1.0]])
def test_p_values_of_one_distribution_are_uniform_even_for_rare_tokens(shares):
    random = np.random.default_rng(3)
    values = [
        permuted_p(last_tokens(random, shares), last_tokens(random, shares), random, permutations=99)
        for _ in range(150)
    ]
    assert uniform_p(values) > 0.01


def test_p_values_of_two_distributions_are_small():
    random = np.random.default_rng(4)
    values = [permuted_p(last_tokens(random, [0.5, 0.5]), last_tokens(random, [0.35, 0.65]), random) for _ in range(40)]
    assert np.mean(np.array(values) < 0.1) > 0.5
    assert uniform_p(values) < 1e-4


@pytest.mark.native
def test_every_sampler_has_cells_in_which_something_is_drawn(sampling, models, target):
    cells = sampling.samplings(target, sampling.grammar_of(models["attention"], target.allowed))
    assert set(cells) == set(SAMPLINGS) - {"grammar-greedy"}
    for name, settings in cells.items():
        assert used(settings) == used(SAMPLINGS[name])
        with target.open_session(None) as session:
            bench = sampling.Bench(target, settings, session)
            outcomes = bench.outcomes(bench.draw_plainly, sampling.seeds_of(name), 60)
        assert len(set(outcomes[:, -1].tolist())) > 1, name


@pytest.mark.native
def test_cells_are_kept_as_they_finish_and_not_measured_again(sampling, monkeypatch, capsys, tmp_path):
    path = tmp_path / "results.json"
    arguments = ["sampling.py", "--samplers", "draw", "--p-values", "2", "--requests", "12", "--results", str(path)]
    monkeypatch.setattr(sys, "argv", [*arguments, "--adversaries", "random"])
    sampling.main()
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert list(kept["cells"]["tiny"]) == ["draw / random"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--adversaries", "random", "always wrong"])
    sampling.main()
    both = json.loads(path.read_text(encoding="utf-8"))
    assert both["cells"]["tiny"]["draw / random"] == kept["cells"]["tiny"]["draw / random"]
    assert len(both["cells"]["tiny"]["draw / always wrong"]["p_values"]) == 2
    assert capsys.readouterr().out.count("uniform p = ") == 2


@pytest.mark.native
def test_a_cell_with_a_single_outcome_is_an_error(sampling, target):
    certain = SamplingSettings(temperature=1.0, top_k=1, logit_bias=target.only)
    with target.open_session(None) as session, pytest.raises(ValueError, match="same one"):
        sampling.plain_samples(sampling.Bench(target, certain, session), "draw", 1, 10)
