"""Faults planted in the C++ of the native library: the profile `ci` finds each through the program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from rebuilt_library import build_folder, rebuild

SHIM = Path(__file__).parents[2] / "native" / "shim"


@attrs.frozen(kw_only=True)
class NativeFault:
    """One change of one source of the shim.

    Attributes:
        sentence: What is wrong.
        source: The file.
        old: Text that occurs once in it.
        new: What takes its place.
        subject: Plugin that the kit runs for.
    """

    sentence: str
    source: str
    old: str
    new: str
    subject: str


FAULTS = (
    NativeFault(
        sentence="state rows are those of the next rows",
        source="taps.cpp",
        old="llama_get_embeddings_nextn_ith(context->llama, row)",
        new="llama_get_embeddings_nextn_ith(context->llama, row + (row + 1 < context->last_rows))",
        subject="power-mtp",
    ),
    NativeFault(
        sentence="hidden rows are shifted by one",
        source="taps.cpp",
        old="(size_t) first_row * width;",
        new="(size_t) (first_row + (first_row + n_rows < context->last_rows)) * width;",
        subject="power-dspark",
    ),
    NativeFault(
        sentence="choices are those of the next row",
        source="outputs.cpp",
        old="*token = power::choose_at_row(ctx, row, probability).token;",
        new="*token = power::choose_at_row(ctx, row + (row + 1 < ctx->last_rows), probability).token;",
        subject="power-ngram",
    ),
    NativeFault(
        sentence="the exact switch does nothing",
        source="exact.cpp",
        old="ggml_backend_cpu_set_use_ref(backend, on != 0);",
        new="ggml_backend_cpu_set_use_ref(backend, false);",
        subject="power-ngram",
    ),
    NativeFault(
        sentence="the rollback window is one row too wide",
        source="evaluate.cpp",
        old="kept ? std::min(context->snapshots, rows - 1) : 0;",
        new="kept ? std::min(context->snapshots, rows) : 0;",
        subject="power-ngram",
    ),
    NativeFault(
        sentence="a restored memory keeps what was written since",
        source="checkpoint.cpp",
        old="llama_state_seq_set_data_ext(context->llama, payload, bytes, seq_id, kFlags) != bytes",
        new="payload == nullptr",
        subject="power-ngram",
    ),
    NativeFault(
        sentence="a round in one call keeps one rejected row",
        source="round.cpp",
        old="asked_.seq_id, asked_.first_pos + asked_.emitted_count);",
        new="asked_.seq_id, asked_.first_pos + asked_.emitted_count + 1);",
        subject="power-mtp",
    ),
    NativeFault(
        sentence="a round in one call feeds the rows behind",
        source="round.cpp",
        old="const float * values = fed_rows_ + (size_t) row * row_values_;",
        new="const float * values = fed_rows_ + (size_t) (row + 1) * row_values_;",
        subject="power-mtp",
    ),
    NativeFault(
        sentence="a round in one call goes on after a mismatch",
        source="round.cpp",
        old="if (row == asked_.drafted || token != asked_.tokens[row + 1]) {",
        new="if (row == asked_.drafted) {",
        subject="power-dspark",
    ),
)

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.sentence.replace(" ", "-"))


@each_fault
def test_the_source_has_the_place_that_is_changed(fault):
    assert (SHIM / fault.source).read_text(encoding="utf-8").count(fault.old) == 1


@pytest.mark.native
@pytest.mark.full
@pytest.mark.slow
@each_fault
def test_the_program_finds_it(fault, tmp_path):
    build = build_folder()
    if build is None:
        pytest.skip("not run here: the folder in which the library was built is gone from the build cache")
    library = rebuild(build, fault.source, fault.old, fault.new, tmp_path)
    report = tmp_path / "report.json"
    command = ["run", fault.subject, "--profile", "ci", "-x", "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "power_contract.cli", *command],
        cwd=tmp_path,
        env={**os.environ, "POWER_NATIVE_LIBRARY": str(library), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-4000:]
    clauses = json.loads(report.read_text(encoding="utf-8"))["clauses"]
    failed = [each["clause"] for each in clauses if each["result"] == "failed"]
    assert failed, done.stdout[-4000:]
    assert not failed[0].startswith(("INFO", "ART")), done.stdout[-4000:]
