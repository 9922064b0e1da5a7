"""README.md says what the program says, and its generator notices when it does not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "generate_readme.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_readme", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_up_to_date():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_is_the_program_that_ci_runs(text: str):
    source = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert f"<!-- example:python -->\n```python\n{source}```\n<!-- end -->" in text


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("from power_core import open_session", "from power import open_session", "block example:python is stale"),
        ("benchmarks/round_cost.py`", "benchmarks/cost.py`", "block results:benchmarks is stale"),
        ("\nacceptance  ", "\naccepting  ", "block output:first-run has no line 'acceptance "),
        ("\nHealth\n", "\n", "block output:doctor has no line 'Health'"),
        ("<!-- output:doctor -->", "", "marker output:doctor stands 0 times"),
        ("<!-- output:doctor -->", "<!-- output:docter -->", "marker output:docter is unknown"),
        ("## Tests", "<!-- status:mtp-cpu -->", "marker status:mtp-cpu is unknown"),
        ("## Tests", "<!-- output:doctor -->", "marker output:doctor stands 2 times"),
        ("(GLOSSARY.md)", "(WORDS.md)", "link to WORDS.md, which is absent"),
        ("## Tests", "/home/somebody/power", "path of a machine: /home/somebody/power"),
        ("## Tests", "\n" * 250, "lines, at most 249 are allowed"),
    ],
)
def test_a_fault_is_found(generator: ModuleType, text: str, old: str, new: str, problem: str):
    assert old in text
    assert any(problem in line for line in generator.problems(text.replace(old, new)))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<!-- end -->", "marker output:doctor has no block"),
        ("text\n<!-- output:first-run -->\ntext\n<!-- end -->", "block output:doctor has no end"),
    ],
)
def test_a_marker_needs_a_block_of_its_own(generator: ModuleType, body: str, problem: str):
    assert problem in generator.structure_problems(f"<!-- output:doctor -->\n{body}\n")


def test_static_blocks_are_restored_and_recorded_runs_kept(generator: ModuleType, text: str):
    broken = text.replace("from power_core import open_session", "nothing").replace("round_cost.py", "nothing.py")
    assert broken != text
    assert generator.filled(broken, static=True) == generator.filled(text, static=True)
    assert generator.block_problems(generator.filled(broken, static=True)) == []


def test_a_run_is_recorded_in_its_block_without_the_set_up(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch, text: str
):
    commands: list[str] = []
    recorders = {name: lambda command: commands.append(command) or "recorded\n" for name in generator.RUNS}
    monkeypatch.setattr(generator, "RUNS", recorders)
    filled = generator.filled(text, static=False)
    assert all(f"<!-- {name} -->\nrecorded\n<!-- end -->" in filled for name in recorders)
    first, real, doctor = commands
    assert first == 'uv run power generate --spec mtp --prompt "def fibonacci(n):" --max-tokens 256\n'
    assert real.startswith("MODEL=$(uv run --group real-model ")
    assert "--spec prompt-lookup" in real
    assert doctor == "uv run power doctor\n"


def test_a_text_that_differs_from_plain_decoding_is_not_recorded(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    answers = {"x --spec prompt-lookup": "one\n\nstrategy  a\nspeed  9\n", "x --spec off": "two\n\nstrategy  off\n"}
    monkeypatch.setattr(generator, "run", answers.__getitem__)
    with pytest.raises(SystemExit, match="not that of --spec off"):
        generator.compared_run("x --spec prompt-lookup")
    answers["x --spec off"] = "one\n\nstrategy  off\nspeed  8 tok/s\n"
    shown = generator.compared_run("x --spec prompt-lookup")
    assert shown.startswith("```text\none\n\nstrategy  a\nspeed  9\n\nwith --spec off  ")
    assert shown.endswith("the same text, 8 tok/s\n```\n")


def test_a_command_that_fails_ends_the_generator(generator: ModuleType):
    with pytest.raises(SystemExit, match="status 3"):
        generator.run("exit 3")


def test_an_answer_stands_before_its_report(generator: ModuleType):
    assert generator.run("echo report >&2; printf answer") == "answer\nreport\n"


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        ("plain\n", "```text\nplain\n```\n"),
        ("a ``` b", "````text\na ``` b\n````\n"),
        ("a\x1ab\tc", "```text\na\ufffdb\tc\n```\n"),
    ],
)
def test_nothing_inside_a_block_can_close_it(generator: ModuleType, inside: str, wanted: str):
    assert generator.fence(inside) == wanted


def test_benchmark_results_come_from_recorded_files(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(generator, "RESULTS", tmp_path)
    assert generator.benchmark_block().count("not measured yet") == 3
    (tmp_path / "round_cost.json").write_text(
        '{"draft_max": 7, "targets": '
        '[{"spec": "mtp", "width": 128, "model_mb": 3.4, "rounds": 10000, "median_us": 61.5, "p99_us": 98.1}]}'
    )
    (tmp_path / "session_memory.json").write_text('{"sessions": 100, "growth_mb": 0.4, "peak_mb": 90.1}')
    run = '{"equal": 29, "prompts": 30}'
    (tmp_path / "block_parity.json").write_text(
        f'{{"tokens": 150, "cells": {{"a": {{"own": {run}, "forced": {run}}}}}}}'
    )
    table = generator.benchmark_block()
    assert "K = 7, 10,000 rounds each | `mtp`, 3.4 MB: median 61.5 µs, 99th percentile 98.1 µs |" in table
    assert "1 configurations, 150 tokens each | 58 of 60 |" in table
    assert "100 of them | 0.4 MB |" in table
