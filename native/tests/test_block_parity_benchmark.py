"""benchmarks/block_parity.py: a taste of it by default, its shorter form under ``full``, and its recorded results."""

import itertools
import json

import block_parity
import pytest

pytestmark = pytest.mark.native


def equal_of(outcome):
    """Outputs that equal plain decoding, all prompts counted; fails unless all did."""
    runs = (outcome["own"], outcome["forced"])
    assert all(run["equal"] == run["prompts"] > 0 for run in runs)
    return sum(run["equal"] for run in runs)


def check(models, prompts, tokens, *, done=frozenset()):
    outcomes = dict(block_parity.run_models(models, set(done), prompts, tokens))
    assert len(outcomes) + len(done) == len(models.widths) * len(block_parity.UBATCHES)
    for name, outcome in outcomes.items():
        assert equal_of(outcome) == prompts, name
        assert outcome["own"]["drafted"] > 0
        assert outcome["forced"]["drafted"] > outcome["forced"]["accepted"] > 0
    return outcomes


def test_what_is_missing_is_run():
    models = block_parity.Models(kind="dspark", target="attention", weights="quantised-head")
    every = {f"{models.name} K={width} ubatch={ubatch}" for width in models.widths for ubatch in block_parity.UBATCHES}
    missing = {f"{models.name} K=3 ubatch=7", f"{models.name} K=8 ubatch=512"}
    outcomes = check(models, 2, 16, done=every - missing)
    assert outcomes.keys() == missing


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("weights", ["F32", "F16", "Q8_0", "Q4_K", "quantised-head"])
@pytest.mark.parametrize("target", ["hybrid", "attention"])
@pytest.mark.parametrize("kind", ["dflash", "dflash2", "dspark"])
def test_every_configuration_of_a_pair_of_models(kind, target, weights):
    check(block_parity.Models(kind=kind, target=target, weights=weights), 8, 64)


def test_the_recorded_results_are_whole_and_equal():
    recorded = json.loads(block_parity.RESULTS.read_text(encoding="utf-8"))
    assert (recorded["prompts"], recorded["tokens"]) == (30, 150)
    pairs = itertools.product(("dflash", "dflash2", "dspark"), block_parity.TARGETS, block_parity.WEIGHTS)
    models = [block_parity.Models(kind=kind, target=target, weights=weights) for kind, target, weights in pairs]
    assert len(recorded["cells"]) == sum(len(each.widths) for each in models) * len(block_parity.UBATCHES)
    for name, outcome in recorded["cells"].items():
        assert equal_of(outcome) == 30
        weights = name.split()[2]
        assert outcome["draft_types"][{"quantised-head": "Q8_0"}.get(weights, weights)] > 0
