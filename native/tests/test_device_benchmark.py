"""benchmarks/device/run.sh: its dry run on this machine, and the pieces that decide what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "device" / "run.sh"


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    command = [str(SCRIPT), "--small", "--out", str(folder), "--budget-s", "3600"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, json.loads((folder / "device.json").read_text(encoding="utf-8"))


@pytest.mark.native
@pytest.mark.slow
def test_the_dry_run_is_whole(dry_run):
    folder, report = dry_run
    assert set(report["sections"]) == {"parity", "exactness", "costs", "contract"}
    assert (folder / "device.png").read_bytes().startswith(b"\x89PNG")
    assert report["machine"]["devices"]


@pytest.mark.native
@pytest.mark.slow
def test_on_the_cpu_every_strategy_keeps_parity_and_every_row_count_its_bits(dry_run):
    _, report = dry_run
    if report["gpu"]:
        pytest.fail("the dry run describes machines without a GPU")
    parity = report["sections"]["parity"]["rows"]
    assert len(parity) == 12
    assert all(row["parity"] and row["tokens"] == row["equal_tokens"] > 0 for row in parity)
    table = report["sections"]["exactness"]["table"]
    assert [entry["type"] for entry in table] == ["F16", "Q8_0", "Q4_K_M", "Q6_K"]
    assert all([cell["rows"] for cell in entry["widths"]] == [*range(2, 17)] for entry in table)
    assert all(
        cell["largest_difference"] == 0.0 and cell["token_parity"] for entry in table for cell in entry["widths"]
    )


@pytest.mark.native
@pytest.mark.slow
def test_gains_stand_beside_the_seeds_figures_with_the_acceptance_that_was_asked_for(dry_run):
    _, report = dry_run
    gains = {gain["strategy"]: gain for gain in report["sections"]["costs"]["gains"]}
    assert {name: gain["seed_gain"] for name, gain in gains.items()} == {"dspark": 5.25, "dflash2": 4.367, "mtp": 5.0}
    for gain in gains.values():
        acceptance = gain["synthetic_acceptance"]
        assert acceptance["reached"] == pytest.approx(acceptance["asked"], abs=0.2)
        assert gain["scaled_gain"] > 0
    assert len(report["sections"]["costs"]["verify_ms_by_rows_scaled"]) == 16


def test_an_unknown_argument_is_refused():
    done = subprocess.run([str(SCRIPT), "--tiny"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown argument '--tiny'" in done.stderr


def test_help_describes_every_argument():
    done = subprocess.run([str(SCRIPT), "--help"], capture_output=True, text=True, check=True)
    for argument in ("--out", "--wheels", "--library", "--zoo", "--small", "--budget-s"):
        assert argument in done.stdout
