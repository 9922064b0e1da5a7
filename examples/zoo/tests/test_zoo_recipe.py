"""The whole recipe in small: trains, exports, validates, drafts, compares. Needs requirements-train.txt.

The training environment is this Python when it has PyTorch, else the one that ``POWER_ZOO_PYTHON`` names.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from power_core import open_session
from power_core.artifacts.drafts import check_draft
from power_core.artifacts.model_files import scan_model
from power_core.plugins.manager import load_plugins

ZOO = Path(__file__).resolve().parents[1]
KINDS = ("dflash", "dspark", "dflash2")

pytestmark = [pytest.mark.full, pytest.mark.native, pytest.mark.slow]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    python = sys.executable if importlib.util.find_spec("torch") else os.environ.get("POWER_ZOO_PYTHON")
    if python is None:
        pytest.fail("no training environment: install examples/zoo/requirements-train.txt, name it in POWER_ZOO_PYTHON")
    folder = tmp_path_factory.mktemp("zoo")
    command = [python, ZOO / "train.py", "--tiny", "--work", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_library_agrees_with_the_trained_models(work):
    found = json.loads((work / "checks.json").read_text(encoding="utf-8"))
    assert found["lines"] == 500
    assert found["lines_that_differ"] == 0
    compared = found["same_function"]
    assert compared["logits"]["largest"] < 1e-3
    for name in ("mtp", *KINDS):
        assert compared[name]["tried"] >= 40
        assert compared[name]["largest_difference"] < 1e-3
        assert compared[name]["tried"] - compared[name]["same"] <= compared[name]["ties"]
        assert not compared[name]["faults"]


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_are_valid_and_change_nothing(work, kind):
    target, draft = work / "models" / "target" / "target.gguf", work / "models" / "drafts" / f"{kind}.gguf"
    assert check_draft(scan_model(target).header, scan_model(draft).header, load_plugins().validators()) == kind
    outputs = []
    for settings in ({"spec": "off"}, {"spec": kind, "draft": draft}, {"spec": "mtp"}):
        with open_session(model=target, **settings) as session:
            outputs.append(session.generate("def main():\n", max_tokens=48).result().tokens)
    assert outputs[0] == outputs[1] == outputs[2]


def test_curves_are_drawn(work):
    assert (work / "curves.png").read_bytes().startswith(b"\x89PNG")
