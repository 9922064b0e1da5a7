"""``power admit``, and what ``power inspect`` and ``power generate`` say of an admission."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from admission_files import FakeBackend, Pair, admitted_pair, flip, write_pair
from cli_fakes import Terminal
from cli_inputs import Run

from power_core.admission import read_manifest
from power_core.cli import main
from power_core.cli.admit import AdmitOrder, run_admit
from power_core.errors import ConfigError
from power_core.plugins.manager import PowerPluginManager

PROVENANCE = ("--source", "https://example.org/draft", "--revision", "4f2a1c", "--license", "Apache-2.0")


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> PowerPluginManager:
    manager = FakeBackend().plugins()
    for module in ("power_core.cli.admit", "power_core.cli.inspect", "power_core.opening"):
        monkeypatch.setattr(f"{module}.load_plugins", lambda: manager)
    return manager


def words(pair: Pair, *more: str) -> tuple[str, ...]:
    return ("admit", "--target", str(pair.target), "--draft", str(pair.draft), *PROVENANCE, *more)


def test_what_was_admitted_is_printed_in_a_few_lines(run: Run, tmp_path: Path):
    pair = write_pair(tmp_path)
    outcome = run(*words(pair))
    assert (outcome.status, outcome.err) == (0, "")
    manifest = read_manifest(pair.manifest)
    lines = outcome.out.splitlines()
    assert lines[0] == "Admitted draft.gguf as dflash."
    assert [line.split()[0] for line in lines[1:]] == ["draft", "target", "tokenizer", "provenance", "manifest"]
    assert f"{manifest.draft.size_bytes} bytes, SHA-256 {manifest.draft.sha256}" in lines[1]
    assert f"target.gguf, {manifest.target.size_bytes} bytes, SHA-256 {manifest.target.sha256}" in lines[2]
    assert lines[3].endswith("gpt2, 4 tokens, the same in both")
    assert lines[4].endswith("https://example.org/draft, revision 4f2a1c, license Apache-2.0")
    assert lines[5].endswith(str(pair.manifest))
    again = run(*words(pair))
    assert again.status == 0
    assert again.out.splitlines()[5].endswith("which said so already")


def test_json_is_the_manifest_and_where_it_lies(run: Run, tmp_path: Path):
    pair = write_pair(tmp_path)
    printed = json.loads(run(*words(pair, "--json")).out)
    assert printed == {
        "path": str(pair.manifest),
        "written": True,
        "manifest": json.loads(pair.manifest.read_text()),
    }
    assert json.loads(run(*words(pair, "--json")).out)["written"] is False


@pytest.mark.parametrize("absent", ["--target", "--draft", "--source", "--revision", "--license"])
def test_every_fact_has_to_be_given(run: Run, tmp_path: Path, absent: str):
    arguments = list(words(write_pair(tmp_path)))
    place = arguments.index(absent)
    error = run(*arguments[:place], *arguments[place + 2 :]).require_one_line_error("config.usage")
    assert absent in error


@pytest.mark.parametrize("name", ["--sha256", "--target-sha256", "--size", "--digest", "--kind"])
def test_nothing_that_is_measured_can_be_given(run: Run, tmp_path: Path, name: str):
    pair = write_pair(tmp_path)
    run(*words(pair, name, "0" * 64)).require_one_line_error("config.usage")
    assert not pair.manifest.exists()


@pytest.mark.parametrize(("option", "text"), [("--source", ""), ("--revision", "a\nb"), ("--license", "\x1b[2J")])
def test_provenance_that_is_no_line_of_text_is_a_usage_error(run: Run, tmp_path: Path, option: str, text: str):
    pair = write_pair(tmp_path)
    error = run(*words(pair, option, text)).require_one_line_error("config.usage")
    assert f"{option} is" in error
    assert "power admit --help" in error
    assert not pair.manifest.exists()


def test_mistakes_are_one_line_and_status_2(run: Run, tmp_path: Path):
    pair = write_pair(tmp_path)
    cases = (
        (Pair(pair.target, tmp_path / "absent"), "artifact.not_found"),
        (Pair(tmp_path, pair.draft), "artifact.not_found"),
        (Pair(pair.target, pair.target), "artifact.pairing"),
        (Pair(pair.draft, pair.target), "artifact.contract"),
    )
    for wrong, code in cases:
        for flags in ((), ("--json",)):
            run(*words(wrong, *flags)).require_one_line_error(code)


def test_another_manifest_needs_force(run: Run, tmp_path: Path):
    pair = admitted_pair(tmp_path)
    flip(pair.draft, -1)
    error = run(*words(pair)).require_one_line_error("config.invalid")
    assert "exists and says something else" in error
    assert "hint: check which one is right; `power admit --force`" in error
    assert run(*words(pair, "--force")).status == 0
    pair.open().close()


def test_hashing_shows_a_bar_for_each_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(list(words(write_pair(tmp_path)))) == 0
    assert "Hashing the draft" in terminal.getvalue()
    assert "Hashing the target" in terminal.getvalue()


def test_an_interrupt_while_hashing_leaves_nothing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pair = write_pair(tmp_path)

    def interrupt(view: object, phase: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("power_core.cli.progress.ProgressView.update", interrupt)
    assert run(*words(pair)).status == 130
    assert not pair.manifest.exists()


# ------------------------------------------------------------------------------------------------------------- inspect


def test_inspect_shows_what_a_draft_is_admitted_for(run: Run, tmp_path: Path):
    pair = admitted_pair(tmp_path)
    outcome = run("inspect", str(pair.draft))
    assert outcome.status == 0
    assert "admission: valid, 5 of 5 checks passed" in outcome.out
    manifest = read_manifest(pair.manifest)
    assert f"a target of {manifest.target.size_bytes} bytes, SHA-256 {manifest.target.sha256}" in outcome.out
    assert "https://example.org/draft, revision 4f2a1c, license Apache-2.0" in outcome.out
    printed = json.loads(run("inspect", str(pair.draft), "--json").out)
    assert printed["admission"] == manifest.to_dict()
    assert [report["kind"] for report in printed["reports"]][-1] == "admission"


def test_inspect_says_nothing_of_admission_without_a_manifest(run: Run, tmp_path: Path):
    pair = write_pair(tmp_path)
    assert "admi" not in run("inspect", str(pair.draft)).out
    assert json.loads(run("inspect", str(pair.draft), "--json").out)["admission"] is None


def test_inspect_notices_a_changed_draft(run: Run, tmp_path: Path):
    pair = admitted_pair(tmp_path)
    flip(pair.draft, -1)
    outcome = run("inspect", str(pair.draft))
    assert outcome.status == 2
    assert "admission: INVALID, 4 of 5 checks passed" in outcome.out
    assert "failed  admission.draft_sha256" in outcome.out


@pytest.mark.parametrize(
    ("content", "check_id"),
    [("{", "admission.json"), ("{}", "admission.schema"), ('{"schema": "power.admission.v1"}', "admission.fields")],
)
def test_inspect_notices_a_damaged_manifest(run: Run, tmp_path: Path, content: str, check_id: str):
    pair = admitted_pair(tmp_path)
    pair.manifest.write_text(content)
    outcome = run("inspect", str(pair.draft))
    assert outcome.status == 2
    assert f"failed  {check_id}" in outcome.out
    assert json.loads(run("inspect", str(pair.draft), "--json").out)["admission"] is None


def test_inspect_notices_a_manifest_of_another_draft(run: Run, tmp_path: Path):
    pair = admitted_pair(tmp_path)
    pair.manifest.rename(pair.target.with_name("target.gguf.admission.json"))
    outcome = run("inspect", str(pair.target))
    assert outcome.status == 2
    for rule in ("file_name", "draft_size", "draft_sha256", "architecture"):
        assert f"failed  admission.{rule}" in outcome.out


# ------------------------------------------------------------------------------------------------------------ generate


def test_generate_names_the_draft_and_what_vouches_for_it(run: Run, tmp_path: Path):
    pair = admitted_pair(tmp_path)
    outcome = run("generate", "--model", str(pair.target), "--prompt", "a", "--max-tokens", "2", "--ctx", "64")
    assert outcome.status == 0
    rows = {line[:24].strip(): line[24:] for line in outcome.err_lines}
    assert rows["strategy"] == "dflash"
    assert rows["draft"] == f"draft.gguf, dflash, SHA-256 {read_manifest(pair.manifest).draft.sha256}"
    assert rows["draft admitted"] == "yes, from https://example.org/draft, revision 4f2a1c, license Apache-2.0"
    assert rows["event"].startswith("auto: chosen dflash, reason draft.gguf beside the target is admitted for it")
    pair.manifest.unlink()
    outcome = run(
        *("generate", "--model", str(pair.target), "--draft", str(pair.draft), "--prompt", "a", "--max-tokens", "2"),
        *("--ctx", "64"),
    )
    rows = {line[:24].strip(): line[24:] for line in outcome.err_lines}
    assert rows["draft admitted"] == "no, nothing vouches for this file"


def test_generate_refuses_a_changed_file_before_the_first_token(run: Run, tmp_path: Path):
    pair = admitted_pair(tmp_path)
    flip(pair.draft, -1)
    order = ("generate", "--model", str(pair.target), "--prompt", "a")
    assert "found through" in run(*order).require_one_line_error("artifact.digest")
    flip(pair.draft, -1)
    flip(pair.target, -1)
    assert "SHA-256" in run(*order, "--draft", str(pair.draft)).require_one_line_error("artifact.pairing")


@pytest.mark.parametrize("option", ["source", "revision", "license"])
def test_a_provenance_error_carries_the_option_that_is_wrong(tmp_path: Path, option: str):
    pair = write_pair(tmp_path)
    values = {"source": "a", "revision": "b", "license": "c", option: ""}
    with pytest.raises(ConfigError) as caught:
        run_admit(AdmitOrder(target=pair.target, draft=pair.draft, force=False, json=False, **values))
    assert caught.value.field == option


def test_generate_names_the_file_that_it_hashes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pair = admitted_pair(tmp_path)
    phases: list[str] = []
    monkeypatch.setattr("power_core.cli.progress.ProgressView.update", lambda view, phase, *_: phases.append(phase))
    run("generate", "--model", str(pair.target), "--draft", str(pair.draft), "--prompt", "a", "--ctx", "64")
    assert phases[:2] == ["hash draft", "hash target"]
