"""benchmarks/block_parity.py: a taste of it by default, its shorter form under ``full``, and its recorded results."""

import importlib.util
import itertools
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "block_parity.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("block_parity", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["block_parity"] = module
    spec.loader.exec_module(module)
    return module


def equal_of(outcome):
    """Outputs that equal plain decoding, all prompts counted; fails unless all did."""
    runs = (outcome["own"], outcome["forced"])
    assert all(run["equal"] == run["prompts"] > 0 for run in runs)
    return sum(run["equal"] for run in runs)


def check(benchmark, models, prompts, tokens, *, done=frozenset()):
    outcomes = dict(benchmark.run_models(models, set(done), prompts, tokens))
    assert len(outcomes) + len(done) == len(models.widths) * len(benchmark.UBATCHES)
    for name, outcome in outcomes.items():
        assert equal_of(outcome) == prompts, name
        assert outcome["own"]["drafted"] > 0
        assert outcome["forced"]["drafted"] > outcome["forced"]["accepted"] > 0
    return outcomes


def test_what_is_missing_is_run(benchmark):
    models = benchmark.Models(kind="dspark", target="attention", weights="quantised-head")
    every = {f"{models.name} K={width} ubatch={ubatch}" for width in models.widths for ubatch in benchmark.UBATCHES}
    missing = {f"{models.name} K=3 ubatch=7", f"{models.name} K=8 ubatch=512"}
    outcomes = check(benchmark, models, 2, 16, done=every - missing)
    assert outcomes.keys() == missing


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("weights", ["F32", "F16", "Q8_0", "Q4_K", "quantised-head"])
@pytest.mark.parametrize("target", ["hybrid", "attention"])
@pytest.mark.parametrize("kind", ["dflash", "dflash2", "dspark"])
def test_every_configuration_of_a_pair_of_models(benchmark, kind, target, weights):
    check(benchmark, benchmark.Models(kind=kind, target=target, weights=weights), 8, 64)


def test_results_of_another_build_or_size_are_not_taken_over(benchmark, tmp_path):
    path = tmp_path / "results.json"
    header = {"library": "a", "prompts": 30, "tokens": 150}
    benchmark.save_results(path, {**header, "configurations": {"one": {}}})
    assert benchmark.load_results(path, header)["configurations"] == {"one": {}}
    for changed in ({"library": "b"}, {"prompts": 29}, {"tokens": 1}):
        assert benchmark.load_results(path, header | changed)["configurations"] == {}


def test_the_recorded_results_are_whole_and_equal(benchmark):
    recorded = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    assert (recorded["prompts"], recorded["tokens"]) == (30, 150)
    pairs = itertools.product(("dflash", "dflash2", "dspark"), benchmark.TARGETS, benchmark.WEIGHTS)
    models = [benchmark.Models(kind=kind, target=target, weights=weights) for kind, target, weights in pairs]
    assert len(recorded["configurations"]) == sum(len(each.widths) for each in models) * len(benchmark.UBATCHES)
    for name, outcome in recorded["configurations"].items():
        assert equal_of(outcome) == 30
        weights = name.split()[2]
        assert outcome["draft_types"][{"quantised-head": "Q8_0"}.get(weights, weights)] > 0
