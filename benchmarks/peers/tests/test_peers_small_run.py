"""`run.py --small` as a whole. Peers take part where they are: POWER_PEERS_PYTHON names an interpreter with their
packages, POWER_LLAMA_SERVER a built server; Power itself always does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from peers.contests import ALL
from peers.llama_cpp_python_engine import NAME as LLAMA_CPP_PYTHON
from peers.llama_server import NAME as LLAMA_SERVER
from peers.records import POWER, read_record
from peers.xllamacpp_engine import NAME as XLLAMACPP

RUN = Path(__file__).parents[1] / "run.py"
MODULES = {XLLAMACPP: "xllamacpp", LLAMA_CPP_PYTHON: "llama_cpp"}


@pytest.mark.full
@pytest.mark.native
def test_small_run(tmp_path):
    python, server = os.environ.get("POWER_PEERS_PYTHON", sys.executable), os.environ.get("POWER_LLAMA_SERVER")
    absent = [name for name, module in MODULES.items() if not _imports(python, module)]
    absent += [] if server else [LLAMA_SERVER]
    results = tmp_path / "peers.json"
    command = [sys.executable, str(RUN), "--small", "--threads", "1", "--json", str(results), "--peers-python", python]
    command += ["--llama-server", server] if server else []
    command += ["--without", *absent] if absent else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = read_record(results)
    assert [contest.name for contest in record.contests] == [name for name, model, *_ in ALL if model != "gemma"]
    present = {POWER, *MODULES, LLAMA_SERVER} - set(absent)
    plain = record.contests[0]
    assert {subject.side for subject in plain.subjects if subject.goal or subject.side == POWER} == present
    assert len(plain.samples) == len(plain.subjects)
    assert all(sample.tokens == 32 for sample in plain.samples)
    assert plain.name in done.stdout


def _imports(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
