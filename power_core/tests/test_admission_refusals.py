"""Every broken admission is refused by the error that its catalogue names, quickly, and nothing is loaded."""

from __future__ import annotations

import re
import time
import tracemalloc
from pathlib import Path

import pytest
from artifact_cases import ArtifactCase, error_of
from broken_admissions import CASES
from broken_manifests import EDITS

from power_core.errors import ArtifactDigestMismatch, ArtifactPairingError


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("admission_files.FakeBackend._open_model", load)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal(case: ArtifactCase, tmp_path: Path):
    tracemalloc.start()
    started = time.monotonic()
    try:
        error = error_of(case, tmp_path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started < 5.0
    assert peak_bytes < 32 << 20
    assert error.hint
    assert len(str(error)) < 4_000
    check_id = getattr(error, "check_id", "")
    if check_id in ("admission.draft_sha256", "admission.target_sha256"):
        assert_both_digests(error)
    if check_id in ("admission.draft_size", "admission.target_size"):
        assert len(re.findall(r"\b[0-9a-f]{64}\b", str(error))) == 2


def assert_both_digests(error: ArtifactDigestMismatch | ArtifactPairingError) -> None:
    assert error.expected != error.actual
    for digest in (error.expected, error.actual):
        assert len(str(digest)) == 64
        assert str(digest) in str(error)


def test_names_are_unique():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_every_field_of_the_schema_is_edited(tmp_path: Path):
    from admission_files import admitted_pair

    values = admitted_pair(tmp_path).admit().admission.manifest.to_dict()
    places = {f"{name}.{inner}" for name, value in values.items() if isinstance(value, dict) for inner in value}
    places |= {name for name, value in values.items() if not isinstance(value, dict)}
    assert set(EDITS) == places - {"schema"}
