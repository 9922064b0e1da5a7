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


TARGETS = {"gemma-3-270m": ("Q4_K_M", "Q8_0", "Q4_0"), "zoo": ("F16", "Q8_0", "Q4_0")}
DRAFTERS = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def planned(import_benchmark):
    """The groups, and the prompts that each drafter of a group decodes."""
    plan = import_benchmark("exactness_plan")
    found = []
    for number, group in enumerate(plan.groups(TARGETS)):
        prompts = plan.prompts_of(number, group, 100, everything=False)
        found.append((group, prompts, plan.assigned(number, group, DRAFTERS, prompts)))
    return found


def test_the_prompts_are_what_their_generator_writes(import_benchmark):
    made = import_benchmark("make_mixed").prompts()
    assert json.loads((BENCHMARKS / "prompts" / "mixed.json").read_text(encoding="utf-8")) == made
    assert len({prompt["text"] for prompt in made}) == 100
    for start in range(94):
        assert len({prompt["domain"] for prompt in made[start : start + 6]}) == 6
        assert {prompt["size"] for prompt in made[start : start + 6]} == {"short", "middle", "long"}


def test_every_group_comes_once_and_exact_ones_with_two_threads_first(planned):
    groups = [group for group, _, _ in planned]
    assert len({group.name for group in groups}) == len(groups) == 6 * 2 * 2 * 2
    assert [(group.arithmetic, group.sampling, group.threads) for group in groups[:6]] == [("exact", "greedy", 2)] * 6
    assert [group.threads for group in groups] == [2] * 24 + [1] * 24


def test_a_prompt_of_the_zoo_meets_every_drafter_and_one_of_gemma_meets_one(planned):
    for group, prompts, cells in planned:
        decoded = sorted(index for chosen in cells.values() for index in chosen)
        assert decoded == sorted(prompts * (len(DRAFTERS) if group.target == "zoo" else 1))


def test_every_exact_group_decodes_all_prompts_and_every_drafter_meets_every_domain(planned, import_benchmark):
    domains = [prompt["domain"] for prompt in import_benchmark("make_mixed").prompts()]
    for group, prompts, cells in planned:
        if group.arithmetic == "exact" or group.target == "zoo":
            assert sorted(prompts) == list(range(100))
            for chosen in cells.values():
                assert len(chosen) >= 16
                assert len({domains[index] for index in chosen}) == 6


@pytest.mark.parametrize(("arithmetic", "prompts", "a_drafter"), [("exact", 100, 50), ("fast", 100, 36)])
def test_over_all_groups_gemma_meets_the_prompts_and_a_drafter_many_of_them(planned, arithmetic, prompts, a_drafter):
    met = {name: set() for name in DRAFTERS}
    for group, _, cells in planned:
        if group.target != "zoo" and group.arithmetic == arithmetic:
            for name, chosen in cells.items():
                met[name].update(chosen)
    assert len(set().union(*met.values())) >= prompts
    assert min(map(len, met.values())) >= a_drafter


@pytest.mark.parametrize(
    ("expected", "found", "position"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1, 2), (1,), 1), ((1,), (1, 2), 1), ((), (), None)],
)
def test_the_first_difference_counts_missing_tokens(import_benchmark, expected, found, position):
    assert import_benchmark("exactness_cells").first_difference(expected, found) == position


def test_results_are_saved_a_cell_a_line_and_read_back(import_benchmark, tmp_path):
    files = import_benchmark("result_files")
    header = {"patches": "x", "tokens": 4}
    cell = {"0": {"first_difference": None, "guarantee": 'bit-identical(8) "quoted"'}}
    results = {**header, "cells": {"a, exact": {"scripted": cell, "other": cell}}}
    path = tmp_path / "results.json"
    files.save_results(path, results, 3)
    assert f' "scripted": {json.dumps(cell)},\n' in path.read_text(encoding="utf-8")
    assert files.load_results(path, header) == results
    assert files.load_results(path, {**header, "tokens": 5}) == {**header, "tokens": 5, "cells": {}}


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


def test_the_tables_count_prompts_outputs_and_differences(import_benchmark):
    def outcome(difference, end):
        return {
            "first_difference": difference,
            "end": end,
            "accepted": 1,
            "drafted": 2,
            "guarantee": "bit-identical(8)",
        }

    cells = {
        "gemma Q8_0, exact, 2 threads, greedy": {"a": {"0": outcome(None, 600)}, "b, wide": {"3": outcome(None, 9)}},
        "gemma Q8_0, fast, 2 threads, greedy": {"a": {"0": outcome(17, 9), "1": outcome(None, 9)}},
        "zoo F16, exact, 1 threads, seeded": {"a": {"0": outcome(None, 9)}, "c": {"0": outcome(None, 9)}},
    }
    text = import_benchmark("exactness_tables").tables({"tokens": 256, "cells": cells})
    assert "4 of 4 outputs equal plain decoding; 1 of them end beyond 512 tokens" in text
    assert "| gemma Q8_0 | 2 | greedy | 2 | 2 of 2 | 2 | 1 of 2 | from 17, median 17 |" in text
    assert "| zoo F16 | 1 | seeded | 1 | 2 of 2 | 0 | not run | - |" in text
    assert "| gemma | a | 1 | 1 of 1 | 2 | 1 of 2 | 3 of 6 |" in text
    assert "| gemma | b, wide | 1 | 1 of 1 | 0 | not run | 1 of 2 |" in text
