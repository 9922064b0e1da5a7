"""Thousands of broken files: a report or an ``ArtifactError``, never another exception, for little reading and memory.

``POWER_FUZZ_EXAMPLES=200000 pytest -m full power_core/tests/test_fuzz_files.py`` explores: other examples every time.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from file_mutations import broken_bytes, broken_parts
from file_parts import Parts, take_apart
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import CountedFile

from power_core.artifacts.byte_reader import CHUNK_BYTES, MAX_HEADER_BYTES
from power_core.artifacts.drafts import check_draft
from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.identity import tokenizer_fingerprint
from power_core.artifacts.roles import describe_role
from power_core.artifacts.target_checks import check_target
from power_core.errors import ArtifactError
from power_core.plugins.manager import load_plugins
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.headers import minimal_target
from power_core.testing.models import build_tiny_target

EXPLORE = int(os.environ.get("POWER_FUZZ_EXAMPLES", "0"))
TARGETS, DRAFTS = ("hybrid", "attention", "sliding-window"), ("dflash", "dspark", "dflash2")
MOST_MESSAGE_CHARS = 2000
MOST_MEMORY_BYTES = 100_000_000


@attrs.frozen
class Fuzzed:
    """Sound files in parts, the target that drafts are paired with, and the file that every example replaces."""

    sound: tuple[Parts, ...]
    target: GgufHeader
    path: Path

    def write(self, header: bytes, size_bytes: int) -> None:
        """Write a header; the data is zeros that take no room."""
        self.path.write_bytes(header[:size_bytes])
        os.truncate(self.path, size_bytes)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Fuzzed:
    folder = tmp_path_factory.mktemp("fuzz")
    targets = [build_tiny_target(folder / kind, kind=kind, hidden=128, dtype="Q8_0") for kind in TARGETS]
    drafts = [build_tiny_draft(folder / kind, kind=kind, hidden=128, dtype="Q8_0") for kind in DRAFTS]
    contents = [minimal_target().build(), *(path.read_bytes() for path in (*targets, *drafts))]
    return Fuzzed(tuple(map(take_apart, contents)), scan_header(targets[0]), folder / "broken.gguf")


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with CountedFile.in_place_of_open(monkeypatch):
        yield


def examine(fuzzed: Fuzzed) -> None:
    """Ask everything that is asked about a file before it is opened."""
    CountedFile.read_bytes = 0
    validators = load_plugins().validators()
    questions: tuple[Callable[[GgufHeader], object], ...] = (
        lambda header: header.architecture,
        describe_role,
        check_target,
        tokenizer_fingerprint,
        lambda header: check_draft(fuzzed.target, header, validators),
        *(validator.validate for validator in validators),
    )
    try:
        header = scan_header(fuzzed.path)
    except ArtifactError as error:
        check_words(error, fuzzed.path)
        questions = ()
    for question in questions:
        try:
            question(header)
        except ArtifactError as error:
            check_words(error, fuzzed.path)
    assert CountedFile.read_bytes <= MAX_HEADER_BYTES + CHUNK_BYTES


def check_words(error: ArtifactError, path: Path) -> None:
    assert path.name in str(error)
    assert error.hint
    assert len(str(error)) < MOST_MESSAGE_CHARS


def fuzz(fuzzed: Fuzzed, data: st.DataObject) -> None:
    parts = data.draw(st.sampled_from(range(len(fuzzed.sound))).map(fuzzed.sound.__getitem__), label="file")
    if data.draw(st.integers(0, 3), label="bytes when 0"):
        parts = data.draw(broken_parts(parts))
        header = parts.header()
    else:
        header = data.draw(broken_bytes(parts.header()))
    cut_bytes = data.draw(st.sampled_from((0, 0, 0, 1, 4096)), label="cut")
    fuzzed.write(header, max(0, len(header) + len(parts.data) - cut_bytes))
    examine(fuzzed)


@settings(max_examples=300)
@given(data=st.data())
def test_broken_files_raise_nothing_but_artifact_errors(fuzzed: Fuzzed, data: st.DataObject) -> None:
    fuzz(fuzzed, data)


@settings(max_examples=60)
@given(data=st.data())
def test_broken_files_need_little_memory(fuzzed: Fuzzed, data: st.DataObject) -> None:
    tracemalloc.start()
    try:
        fuzz(fuzzed, data)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.full
@settings(
    max_examples=EXPLORE or 20_000,
    derandomize=not EXPLORE,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_twenty_thousand_broken_files(fuzzed: Fuzzed, data: st.DataObject) -> None:
    fuzz(fuzzed, data)


@settings(max_examples=200)
@given(content=st.binary(max_size=200))
def test_arbitrary_bytes_after_a_good_start(fuzzed: Fuzzed, content: bytes) -> None:
    start = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") * 2
    fuzzed.write(start + content, len(start + content))
    examine(fuzzed)


def test_sound_files_pass(fuzzed: Fuzzed) -> None:
    for parts in fuzzed.sound[1 : 1 + len(TARGETS)]:
        fuzzed.path.write_bytes(parts.build())
        assert check_target(scan_header(fuzzed.path)).ok
        fuzzed.path.write_bytes(parts.laid_out().build())
        assert check_target(scan_header(fuzzed.path)).ok
