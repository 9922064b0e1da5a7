"""benchmarks/exactness.py: its prompts, the order of its cells, how outputs are compared, and its recorded results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def import_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.syspath_prepend(BENCHMARKS / "prompts")
    return importlib.import_module


def test_the_prompts_are_what_their_generator_writes(import_benchmark):
    made = import_benchmark("make_mixed").prompts()
    assert json.loads((BENCHMARKS / "prompts" / "mixed.json").read_text(encoding="utf-8")) == made
    assert len({prompt["text"] for prompt in made}) == 100
    first = made[: import_benchmark("exactness").BATCH_PROMPTS]
    assert len({prompt["domain"] for prompt in first}) == 6
    assert {prompt["size"] for prompt in first} == {"short", "middle", "long"}


def test_every_cell_comes_once_and_exact_ones_with_two_threads_first(import_benchmark):
    cells = import_benchmark("exactness_cells")
    groups = cells.groups({"gemma-3-270m": ("Q4_K_M", "Q8_0"), "zoo": ("F16",)})
    assert len({group.name for group in groups}) == len(groups) == 3 * 2 * 2 * 2
    assert [(group.arithmetic, group.sampling, group.threads) for group in groups[:3]] == [("exact", "greedy", 2)] * 3
    assert [group.threads for group in groups] == [2] * 12 + [1] * 12


@pytest.mark.parametrize(
    ("expected", "found", "position"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1, 2), (1,), 1), ((1,), (1, 2), 1), ((), (), None)],
)
def test_the_first_difference_counts_missing_tokens(import_benchmark, expected, found, position):
    assert import_benchmark("exactness_cells").first_difference(expected, found) == position


def test_results_are_saved_a_cell_a_line_and_read_back(import_benchmark, tmp_path):
    benchmark = import_benchmark("exactness")
    header = {"library": "x", "tokens": 4}
    cell = {"0": {"first_difference": None, "guarantee": 'bit-identical(8) "quoted"'}}
    results = {**header, "cells": {"a, exact": {"scripted": cell, "other": cell}}}
    path = tmp_path / "results.json"
    benchmark.save_results(path, results)
    assert benchmark.load_results(path, header) == results
    assert benchmark.load_results(path, {**header, "tokens": 5})["cells"] == {}


def test_recorded_outputs_are_equal_in_every_exact_cell():
    """The claim of docs/exactness.md, on the committed results."""
    results = json.loads((BENCHMARKS / "results" / "exactness.json").read_text(encoding="utf-8"))
    exact = [
        outcome
        for name, drafters in results["cells"].items()
        for outcomes in drafters.values()
        for outcome in outcomes.values()
        if name.split(", ")[1] == "exact"
    ]
    assert sum(outcome["accepted"] for outcome in exact) > 0
    assert sum(outcome["drafted"] - outcome["accepted"] for outcome in exact) > 0
    assert any(outcome["end"] > 512 for outcome in exact)
    assert [outcome for outcome in exact if outcome["first_difference"] is not None] == []
