"""Checks, reports, and the protocol of validators."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.validation import ArtifactValidator, CheckList, ValidationReport
from power_core.errors import ArtifactContractError
from power_core.testing.headers import minimal_target


class _RepeatTable:
    kind = "repeat-table"
    describe = "A table of tokens that tend to repeat."

    def matches(self, header: GgufHeader) -> bool:
        return header.architecture == "repeat"

    def validate(self, header: GgufHeader) -> ValidationReport:
        checks = CheckList(self.kind)
        checks.add("tensor", "repeat.weight" in header.tensors, "repeat.weight is missing", expected="repeat.weight")
        return checks.report(self.kind, header.path)


def test_report_passes_when_every_check_does() -> None:
    checks = CheckList("toy")
    assert checks.add("a", True, "fine") is True
    report = checks.report("toy", Path("f.gguf"))
    assert report.ok
    assert report.failures == ()
    report.raise_first()


def test_first_failure_is_raised_and_the_others_are_named() -> None:
    checks = CheckList("toy")
    checks.add("a", True, "fine")
    assert checks.add("b", False, "too small", expected=2, actual=1) is False
    checks.add("c", False, "too large", expected=2, actual=3)
    report = checks.report("toy", Path("f.gguf"))
    assert not report.ok
    assert [check.id for check in report.failures] == ["toy.b", "toy.c"]
    with pytest.raises(ArtifactContractError, match=r"f\.gguf is not a valid toy: too small .*toy\.c") as caught:
        report.raise_first()
    assert (caught.value.check_id, caught.value.expected, caught.value.actual) == ("toy.b", 2, 1)
    assert caught.value.path == "f.gguf"
    assert caught.value.hint


def test_error_about_the_file_itself_does_not_repeat_its_path() -> None:
    checks = CheckList("toy")
    for path in ("f.gguf", "other.gguf"):
        error = ArtifactContractError(f"{path}: the key is missing", path=path, expected="a key", actual=None)
        checks.add_error("key", error, Path("f.gguf"))
    report = checks.report("toy", Path("f.gguf"))
    assert [check.message for check in report.failures] == ["the key is missing", "other.gguf: the key is missing"]
    assert report.failures[0].expected == "a key"
    with pytest.raises(ArtifactContractError, match=r"^f\.gguf is not a valid toy: the key is missing"):
        report.raise_first()


def test_report_without_checks_is_not_ok() -> None:
    report = CheckList("toy").report("toy", Path("f.gguf"))
    assert not report.ok
    with pytest.raises(ArtifactContractError, match="nothing was checked"):
        report.raise_first()


def test_plain_class_is_a_validator(tmp_path: Path) -> None:
    validator = _RepeatTable()
    assert isinstance(validator, ArtifactValidator)
    path = tmp_path / "f.gguf"
    path.write_bytes(minimal_target().build())
    header = scan_header(path)
    assert not validator.matches(header)
    assert validator.validate(header).failures[0].id == "repeat-table.tensor"
