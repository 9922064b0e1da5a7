"""Hostile files: each has its verdict, from ``power inspect`` and when it is opened, for little time and memory."""

from __future__ import annotations

import faulthandler
import os
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from artifact_cases import ArtifactCase, error_of
from cli_fakes import run_power
from hostile_files import CASES, TARGET_FILES, HostileFile
from hostile_headers import GOOD
from reading import CountedFile

from power_core.artifacts.byte_reader import CHUNK_BYTES, MAX_HEADER_BYTES
from power_core.artifacts.gguf import ValueType, scan_header
from power_core.errors import ArtifactFormatError

MOST_MEMORY_BYTES = 100_000_000
HANG_SECONDS = 60.0


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that reads or allocates too much; end the process when it hangs."""
    CountedFile.read_bytes = 0
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    tracemalloc.start()
    with CountedFile.in_place_of_open(monkeypatch):
        yield
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    faulthandler.cancel_dump_traceback_later()
    assert peak_bytes < MOST_MEMORY_BYTES
    assert CountedFile.read_bytes <= MAX_HEADER_BYTES + CHUNK_BYTES


def test_names_are_unique_and_kebab_case() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_file_is_refused_before_anything_native(case: ArtifactCase, tmp_path: Path) -> None:
    error = error_of(case, tmp_path)
    assert error.hint
    assert len(str(error)) < 2000


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("file", TARGET_FILES, ids=lambda file: file.name)
def test_inspect_says_the_same(file: HostileFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_power(capsys, "inspect", str(file.write(tmp_path)))
    assert outcome.status == 2
    if not outcome.out:
        outcome.require_one_line_error(file.code)
        return
    assert file.check_id in outcome.out
    assert len(outcome.out) < 8000


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_inspect_shows_no_endless_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str]) -> None:
    content = GOOD.with_array("general.license", ValueType.STRING, ["a"] * 100_000)
    content = content.with_array("qwen3.vocab_size", ValueType.UINT8, [1] * 100_000)
    content = content.with_value("general.name", ValueType.STRING, "long" * 100_000)
    path = tmp_path / "model.gguf"
    path.write_bytes(content.build())
    outcome = run_power(capsys, "inspect", str(path), *flags)
    assert (outcome.status, outcome.err) == (0, "")
    assert len(outcome.out) < 16_000


def test_every_cut_is_refused(tmp_path: Path) -> None:
    whole = GOOD.build()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole)
    for length in reversed(range(len(whole))):
        os.truncate(path, length)
        with pytest.raises(ArtifactFormatError) as caught:
            scan_header(path)
        assert caught.value.check_id in ("gguf.truncated", "gguf.magic", "gguf.empty", "gguf.count")
