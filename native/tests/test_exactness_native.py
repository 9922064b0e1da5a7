"""The probe, the guard and the table of ``power doctor`` on tiny targets with the real library."""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest

from power_core import open_session
from power_core.cli import main
from power_core.plugins.manager import load_plugins
from power_core.testing.forced import ForcedPlugins
from power_core.testing.parity import FORCED, forced_session, reference
from power_native.info import build_key

pytestmark = pytest.mark.native

KINDS = ("hybrid", "attention", "sliding-window")
PROMPTS = ("def fibonacci(n):\n", "for x in range", "return self")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing that was measured before counts."""
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))


def open_scripted(model, **settings):
    plugins = ForcedPlugins(load_plugins(), {}, FORCED["full"](random.Random(0))).as_manager()
    return open_session(model=model, spec="scripted", plugins=plugins, **{"threads": 1, "ctx": 512, **settings})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_exact_arithmetic_is_measured_to_be_exact(model_paths, kind, threads):
    with open_scripted(model_paths[kind], draft_max=7, threads=threads) as session:
        assert session.plan.guarantee == "bit-identical(8)"
        assert session.plan.probe.largest_difference == 0.0
        assert session.plan.slice_rows == 8
        assert session.context.length_tokens() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_fast_arithmetic_is_measured_and_claims_nothing(model_paths, kind):
    with open_scripted(model_paths[kind], draft_max=7, arithmetic="fast") as session:
        assert session.plan.guarantee == "target-authoritative"
        assert session.plan.probe.widest_rows < 8
        assert session.plan.probe.largest_difference > 0.0
        assert session.plan.slice_rows == 8
        (event,) = [event for event in session.plan.events if event["event"] == "probe"]
        assert event["largest_difference"] == session.plan.probe.largest_difference


def test_plain_decoding_has_nothing_to_measure(model_paths, tmp_path):
    with open_session(model=model_paths["attention"], spec="off", threads=1, ctx=256) as session:
        assert (session.plan.guarantee, session.plan.probe) == ("bit-identical(1)", None)
    assert not (tmp_path / "probes").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forced", ["zero", "partial", "full"])
def test_guarded_output_is_that_of_plain_decoding(model_paths, kind, forced):
    settings = {"threads": 1, "ctx": 512, "arithmetic": "guarded"}
    truth = reference(model_paths[kind], PROMPTS[:2], 50, **settings)
    with forced_session(model_paths[kind], truth, forced, "scripted", draft_max=5, **settings) as session:
        for prompt, tokens in truth.items():
            result = session.generate(prompt, max_tokens=len(tokens)).result()
            assert list(result.tokens) == tokens
            assert result.report.guarantee == "margin-guarded"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_decided_again_leave_the_memory_of_plain_decoding(model_paths, kind, monkeypatch):
    """With an enormous multiple every row is decided again: the bits are those of plain decoding."""
    monkeypatch.setattr("power_core.exactness.guarantor.NOISE_MULTIPLE", 1e9)
    settings = {"threads": 1, "ctx": 512, "arithmetic": "guarded"}
    truth = reference(model_paths[kind], PROMPTS[:1], 60, **settings)
    with forced_session(model_paths[kind], truth, "partial", "scripted", draft_max=5, **settings) as session:
        ((prompt, tokens),) = truth.items()
        result = session.generate(prompt, max_tokens=len(tokens)).result()
        facts = session.context.check_integrity()
    assert list(result.tokens) == tokens
    assert result.report.guarded_rows >= result.report.rounds - 10
    assert (facts.length_tokens, facts.stale) == (facts.expected_tokens, False)
    assert (result.report.copied_bytes > 0) == (kind == "hybrid")


def test_the_library_tells_its_build(monkeypatch):
    before = build_key()
    assert build_key() == before
    monkeypatch.setenv("GGML_CPU_TILED_MM", "0")
    assert build_key() != before


def test_a_measurement_is_read_back(model_paths, tmp_path):
    with open_scripted(model_paths["hybrid"], draft_max=3) as session:
        measured = session.plan.probe
        (path,) = (tmp_path / "probes").iterdir()
    stamp = path.stat().st_mtime_ns
    with open_scripted(model_paths["hybrid"], draft_max=3) as session:
        assert session.plan.probe == measured
        assert session.context.evaluations == 0
    assert path.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(("arithmetic", "widest"), [("exact", 4), ("fast", 1)])
def test_doctor_shows_the_table(capsys, model_paths, arithmetic, widest):
    arguments = ["doctor", "--model", str(model_paths["attention"]), "--threads", "1", "--ctx", "300"]
    arguments += ["--draft-max", "3", "--arithmetic", arithmetic]
    assert main([*arguments, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["exactness"]
    assert values["depths_tokens"] == [8, 64, 255, 296]
    assert (values["rows"], values["widest_rows"]) == (4, widest)
    assert len(values["cells"]) == 16
    assert (values["largest_difference"] == 0.0) is (arithmetic == "exact")
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "ROWS  AT 8" in text
    assert f"up to {widest} rows have the bits of single rows at every depth" in text


def test_doctor_says_why_there_is_no_table(capsys, tmp_path):
    assert main(["doctor", "--model", str(tmp_path / "none.gguf")]) == 1
    assert "error    exactness: " in capsys.readouterr().out


def test_the_calibration_counts_every_row(model_paths, monkeypatch):
    """``benchmarks/margin_guard.py`` at its smallest: a larger multiple guards more rows, 0 guards none."""
    place = Path(__file__).resolve().parents[2] / "benchmarks" / "margin_guard.py"
    monkeypatch.syspath_prepend(str(place.parent))
    specification = importlib.util.spec_from_file_location("margin_guard_benchmark", place)
    benchmark = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = benchmark
    specification.loader.exec_module(benchmark)
    options = argparse.Namespace(prompts=1, tokens=30, threads=1, rows=[5, 8])
    found = benchmark.measure(model_paths["attention"], options)
    assert {rows: each["rows"] for rows, each in found.items()} == {"5": 25, "8": 16 + 8}
    for each in found.values():
        lines = each["by_multiple"]
        shares = [line["guarded_share"] for line in lines]
        assert shares == sorted(shares)
        assert shares[0] == 0.0
        assert all(0.0 <= line["failures_per_row"] <= line["failures_per_row_upper95"] <= 1.0 for line in lines)
    page = benchmark.document({"prompts": 1, "tokens": 30, "cells": {"tiny": found}})
    assert page.count("| tiny |") == 2 * len(benchmark.SHOWN)
    assert " of 49 rows were not the true token" in page
