"""``power inspect``: role, identity, facts, checks of the core and of plugins, exit status."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from cli_fakes import Terminal, run_power

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.validation import CheckList, ValidationReport
from power_core.artifacts.values import ValueType
from power_core.cli import main
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.testing.headers import GgufBytes, minimal_target


@attrs.frozen
class FakeValidator:
    """Matches every file and answers what it was made with."""

    answer: Callable[[GgufHeader], ValidationReport]
    kind: str = "fake-kind"
    describe: str = "A file for tests."

    def matches(self, header: GgufHeader) -> bool:
        return True

    def validate(self, header: GgufHeader) -> ValidationReport:
        return self.answer(header)


def verdict(passed: bool) -> Callable[[GgufHeader], ValidationReport]:
    def answer(header: GgufHeader) -> ValidationReport:
        checks = CheckList("fake")
        checks.add("rule", passed, "the rule", expected=1, actual=2)
        return checks.report("fake-kind", header.path)

    return answer


def crash(header: GgufHeader) -> ValidationReport:
    raise KeyError("width")


@pytest.fixture(autouse=True)
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(*validators: FakeValidator) -> None:
        record = LoadedPlugin(
            name="x", distribution="power-x", version="1", status="loaded", api=(1, 0), validators=validators
        )
        monkeypatch.setattr("power_core.cli.inspect.load_plugins", lambda: PowerPluginManager([record]))

    use()
    return use


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target.gguf"
    path.write_bytes(minimal_target().with_value("general.name", ValueType.STRING, "Tiny\x1b[2J").build())
    return path


def inspect_json(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, Any]:
    return json.loads(run_power(capsys, "inspect", str(path), "--json").out)


def test_a_target_is_described(capsys, target: Path):
    outcome = run_power(capsys, "inspect", str(target))
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Target model, architecture 'qwen3', 1 blocks, 4 tokens, context 64")
    assert lines[1].startswith("Next: Run it: power generate --model FILE")
    facts = dict(line.split(maxsplit=1) for line in lines[3:] if "  " in line)
    assert facts["size_bytes"] == str(target.stat().st_size)
    assert facts["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert facts["architecture"] == "qwen3"
    assert len(facts["tokenizer_fingerprint"]) == 64
    assert facts["tensors"] == "2"
    assert facts["tensor_types"] == "2 F32"
    assert facts["general.name"] == "Tiny\\x1b[2J"
    assert any(line.startswith("target: valid, ") for line in lines)


def test_a_number_that_json_has_no_word_for_is_text(capsys, tmp_path: Path):
    path = tmp_path / "target.gguf"
    path.write_bytes(minimal_target().with_value("general.license", ValueType.FLOAT32, float("nan")).build())
    printed = json.loads(run_power(capsys, "inspect", str(path), "--json").out, parse_constant=pytest.fail)
    assert printed["facts"]["general.license"] == "nan"


def test_json_has_everything(capsys, target: Path):
    printed = inspect_json(capsys, target)
    assert list(printed) == [
        "path",
        "valid",
        "role",
        "sentence",
        "next_step",
        "identity",
        "facts",
        "admission",
        "reports",
    ]
    assert (printed["valid"], printed["role"], printed["path"]) == (True, "target", str(target))
    assert list(printed["identity"]) == ["size_bytes", "sha256", "architecture", "tokenizer_fingerprint"]
    (report,) = printed["reports"]
    assert (report["kind"], report["ok"]) == ("target", True)
    assert list(report["checks"][0]) == ["id", "passed", "message", "expected", "actual"]


def test_a_failed_check_of_the_core_makes_the_status_2(capsys, tmp_path: Path):
    path = tmp_path / "broken.gguf"
    broken = minimal_target().with_value("tokenizer.ggml.bos_token_id", ValueType.UINT32, 99)
    path.write_bytes(broken.build())
    outcome = run_power(capsys, "inspect", str(path))
    assert (outcome.status, outcome.err) == (2, "")
    assert "target: INVALID" in outcome.out
    assert "failed  target." in outcome.out
    assert inspect_json(capsys, path)["valid"] is False


@pytest.mark.parametrize(("passed", "status"), [(True, 0), (False, 2)])
def test_validators_of_plugins_are_asked(capsys, install, target: Path, passed: bool, status: int):
    install(FakeValidator(verdict(passed)))
    outcome = run_power(capsys, "inspect", str(target))
    assert outcome.status == status
    assert f"fake-kind: {'valid' if passed else 'INVALID'}, {int(passed)} of 1 checks passed" in outcome.out
    assert ("failed  fake.rule  the rule (expected 1, found 2)" in outcome.out) is not passed


def test_a_validator_that_raises_is_a_failed_check(capsys, install, target: Path):
    install(FakeValidator(crash))
    outcome = run_power(capsys, "inspect", str(target))
    assert outcome.status == 2
    assert "failed  fake-kind.validator  the validator raised KeyError: 'width'" in outcome.out


def test_a_file_that_no_package_checks_says_so(capsys, tmp_path: Path):
    path = tmp_path / "adapter.gguf"
    header = GgufBytes().with_value("general.architecture", ValueType.STRING, "llama")
    path.write_bytes(header.with_value("general.type", ValueType.STRING, "adapter").build())
    outcome = run_power(capsys, "inspect", str(path))
    assert outcome.status == 0
    assert "an adapter" in outcome.out
    assert "No installed package checks this kind of file." in outcome.out


def test_a_file_without_architecture_is_invalid_and_still_described(capsys, tmp_path: Path):
    path = tmp_path / "nameless.gguf"
    path.write_bytes(GgufBytes().build())
    outcome = run_power(capsys, "inspect", str(path))
    assert outcome.status == 2
    assert "Next: " in outcome.out
    assert "identity: INVALID" in outcome.out
    assert inspect_json(capsys, path)["identity"] is None


def test_a_file_that_is_no_gguf_is_one_line(capsys, tmp_path: Path):
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    empty = tmp_path / "empty.gguf"
    empty.touch()
    for path, code in (
        (tmp_path / "absent", "artifact.not_found"),
        (tmp_path, "artifact.not_found"),
        (text, "artifact.format"),
        (empty, "artifact.format"),
    ):
        for flags in ((), ("--json",)):
            run_power(capsys, "inspect", str(path), *flags).require_one_line_error(code)


def test_truncation_anywhere_is_one_line(capsys, tmp_path: Path):
    whole = minimal_target().build()
    path = tmp_path / "cut.gguf"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        run_power(capsys, "inspect", str(path)).require_one_line_error("artifact.format")


def test_hashing_shows_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, target: Path):
    import sys

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["inspect", str(target)]) == 0
    assert "Hashing the file" in terminal.getvalue()
