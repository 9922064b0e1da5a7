"""Sessions and drafts: given, found or left alone; what the report says; what is hashed when; what stays unopened."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from admission_files import (
    PROVENANCE,
    FakeBackend,
    Pair,
    admitted_pair,
    draft_bytes,
    flip,
    target_bytes,
    write_pair,
)

from power_core.errors import (
    ArtifactDigestMismatch,
    ArtifactError,
    ConfigError,
    PluginContractError,
    UnsupportedStrategyError,
)
from power_core.report import DraftRecord
from power_core.session import Session


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def auto_event(session: Session) -> dict[str, Any]:
    (event,) = [event for event in session.plan.events if event["event"] == "auto"]
    return event


# --------------------------------------------------------------------------------------------------------------- given


@pytest.mark.parametrize("spec", ["auto", "dflash"])
def test_a_draft_without_manifest_is_checked_hashed_and_called_not_admitted(tmp_path: Path, spec: str):
    pair = write_pair(tmp_path)
    with pair.open(spec=spec) as session:
        assert session.strategy == "dflash"
        record = DraftRecord(file="draft.gguf", kind="dflash", sha256=sha256(pair.draft))
        assert session.plan.draft == record
        report = session.generate([1, 2], max_tokens=2).result().report.to_dict()
    assert report["admitted"] is False
    assert report["draft"] == {
        "file": "draft.gguf",
        "kind": "dflash",
        "sha256": sha256(pair.draft),
        "admitted": False,
        "source": None,
        "revision": None,
        "license": None,
    }


def test_a_draft_with_its_manifest_is_admitted_with_its_provenance(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    with pair.open() as session:
        report = session.generate([1, 2], max_tokens=2).result().report.to_dict()
    assert report["admitted"] is True
    assert report["draft"] == {
        "file": "draft.gguf",
        "kind": "dflash",
        "sha256": sha256(pair.draft),
        "admitted": True,
        "source": PROVENANCE.source,
        "revision": PROVENANCE.revision,
        "license": PROVENANCE.license,
    }
    assert json.dumps(report)


def test_the_folder_may_move_and_the_target_may_be_renamed(tmp_path: Path):
    (tmp_path / "a").mkdir()
    pair = admitted_pair(tmp_path / "a")
    moved = pair.draft.parent.rename(tmp_path / "b")
    renamed = (moved / "target.gguf").rename(tmp_path / "other.gguf")
    with Pair(renamed, moved / "draft.gguf").open() as session:
        assert session.plan.draft.admitted


def test_a_link_to_the_draft_has_a_manifest_of_its_own(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "draft.gguf"
    link.symlink_to(pair.draft)
    assert not Pair(pair.target, link).open().plan.draft.admitted
    shutil.copy(pair.manifest, link.parent)
    assert Pair(pair.target, link).open().plan.draft.admitted


@pytest.mark.parametrize("spec", ["mtp", "off"])
def test_a_draft_that_the_strategy_would_not_read_is_an_error(tmp_path: Path, spec: str):
    pair = write_pair(tmp_path, nextn=True)
    with pytest.raises(ConfigError, match="a draft file was given and strategy"):
        pair.open(spec=spec)


def test_a_draft_of_another_kind_than_the_strategy_is_refused_by_name(tmp_path: Path):
    with pytest.raises(UnsupportedStrategyError, match=r"'dspark' is not supported.*the draft is of kind dflash"):
        write_pair(tmp_path).open(spec="dspark")


def test_an_unknown_strategy_is_said_before_any_file_of_a_draft_is_read(tmp_path: Path):
    with pytest.raises(ConfigError, match="unknown speculative strategy"):
        Pair(write_pair(tmp_path).target, tmp_path / "absent").open(spec="dflush")


# --------------------------------------------------------------------------------------------------------------- found


def test_auto_takes_the_admitted_draft_before_mtp_and_says_why(tmp_path: Path):
    pair = admitted_pair(tmp_path, nextn=True)
    backend = FakeBackend()
    with pair.open_without(backend) as session:
        assert session.strategy == "dflash"
        assert session.plan.draft.admitted
        event = auto_event(session)
    assert event["chosen"] == "dflash"
    assert event["reason"] == "draft.gguf beside the target is admitted for it, as dflash"
    (context,) = backend.drafters
    assert context.draft_path == pair.draft
    assert context.draft_header.get("fake.kind") == "dflash"


def test_two_mechanisms_are_never_loaded_together(tmp_path: Path):
    pair = admitted_pair(tmp_path, nextn=True)
    for opening in (pair.open, pair.open_without):
        backend = FakeBackend()
        opening(backend).close()
        assert [model.load_nextn for model in backend.models] == [False]
        assert len(backend.drafters) == 1
    backend = FakeBackend()
    pair.open_without(backend, spec="mtp").close()
    assert [model.load_nextn for model in backend.models] == [True]
    assert [context.draft_path for context in backend.drafters] == [None]


def test_a_plugin_that_wants_both_mechanisms_is_at_fault(tmp_path: Path):
    backend = FakeBackend(greedy=True)
    with pytest.raises(PluginContractError, match="reads a draft file and wants the target's prediction heads too"):
        admitted_pair(tmp_path, nextn=True).open(backend)
    assert backend.models == []


@pytest.mark.parametrize(
    ("nextn", "chosen", "reason"),
    [
        (True, "mtp", "no draft is admitted beside the target, whose own file holds prediction heads"),
        (False, "off", "no draft is admitted beside the target, and its own file drafts nothing"),
    ],
)
def test_auto_without_an_admitted_draft_goes_on_and_says_why(tmp_path: Path, nextn: bool, chosen: str, reason: str):
    pair = write_pair(tmp_path, nextn=nextn)  # a draft lies there, but nothing vouches for it
    with pair.open_without() as session:
        event = auto_event(session)
        assert (session.strategy, event["chosen"], event["reason"]) == (chosen, chosen, reason)
        assert session.plan.draft is None
        assert session.generate([1], max_tokens=1).result().report.admitted is None


def test_auto_says_why_a_given_draft_is_used(tmp_path: Path):
    with write_pair(tmp_path, kind="dspark").open() as session:
        assert auto_event(session)["reason"] == "the draft draft.gguf was given, its kind is dspark"


def test_a_named_strategy_takes_the_admitted_draft_of_its_kind(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    other = Pair(pair.target, tmp_path / "second.gguf")
    other.draft.write_bytes(draft_bytes(kind="dspark"))
    other.admit()
    for spec, name in (("dflash", "draft.gguf"), ("dspark", "second.gguf")):
        with pair.open_without(spec=spec) as session:
            assert session.plan.draft.file == name
    with pytest.raises(ConfigError, match=r"2 drafts are admitted.*draft\.gguf \(dflash\), .*second\.gguf \(dspark\)"):
        pair.open_without()
    with pair.open() as session:
        assert session.plan.draft.file == "draft.gguf"


def test_a_named_strategy_without_an_admitted_draft_of_its_kind_asks_for_one(tmp_path: Path):
    with pytest.raises(ConfigError, match="strategy 'dspark' needs a draft file and none was given"):
        admitted_pair(tmp_path).open_without(spec="dspark")


@pytest.mark.parametrize("spec", ["off", "mtp"])
def test_strategies_that_read_no_draft_never_look_for_one(tmp_path: Path, spec: str):
    pair = admitted_pair(tmp_path, nextn=True)
    pair.manifest.write_text("{")
    with pair.open_without(spec=spec) as session:
        assert (session.strategy, session.plan.draft) == (spec, None)


def test_a_manifest_for_a_target_of_another_size_is_another_target_s(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    other = tmp_path / "larger.gguf"
    other.write_bytes(target_bytes(padding=64))
    with Pair(other, pair.draft).open_without() as session:
        assert session.strategy == "off"


def test_an_error_of_a_found_draft_says_how_it_was_found(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    flip(pair.draft, -1)
    with pytest.raises(ArtifactDigestMismatch) as found:
        pair.open_without()
    assert f"the draft was found through {pair.manifest}" in found.value.hint
    with pytest.raises(ArtifactDigestMismatch) as given:
        pair.open()
    assert "found through" not in given.value.hint


def test_a_found_draft_that_the_strategy_refuses_is_no_reason_for_another_one(tmp_path: Path):
    pair = admitted_pair(tmp_path, nextn=True)
    backend = FakeBackend(kinds=("dspark",))
    with pytest.raises(UnsupportedStrategyError, match="no strategy can use the given draft file") as caught:
        pair.open_without(backend)
    assert "found through" in caught.value.hint
    assert backend.models == []


# --------------------------------------------------------------------------------------------- what is read, and when


def test_hashing_shows_its_progress_before_loading(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    seen: list[tuple[str, int, int]] = []
    pair.open(progress=lambda *call: seen.append(call)).close()
    sizes = [pair.draft.stat().st_size, pair.target.stat().st_size]
    assert [call for call in seen if call[0] == "hash"] == [("hash", size, size) for size in sizes]
    seen.clear()
    pair.manifest.unlink()
    pair.open(progress=lambda *call: seen.append(call)).close()
    assert [call for call in seen if call[0] == "hash"] == [("hash", sizes[0], sizes[0])]


def test_cheap_refusals_come_before_any_hashing(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    hashed: list[object] = []
    for settings in ({"scheduler": "goodput"}, {"draft_max": 64, "batch": 8}, {"spec": "off"}, {"spec": "dspark"}):
        with pytest.raises((ConfigError, UnsupportedStrategyError)):
            pair.open(progress=lambda *call: hashed.append(call), **settings)
    pair.target.write_bytes(target_bytes(padding=64))
    with pytest.raises(ArtifactError):
        pair.open(progress=lambda *call: hashed.append(call))
    assert hashed == []


def test_a_session_without_a_draft_hashes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("power_core.artifacts.model_files.identify_model", lambda *arguments: pytest.fail("hashed"))
    write_pair(tmp_path, nextn=True).open_without().close()


@pytest.mark.parametrize("role", ["draft", "target"])
def test_a_file_that_is_replaced_while_the_model_loads_is_noticed_and_everything_closed(tmp_path: Path, role: str):
    pair = admitted_pair(tmp_path)
    backend = FakeBackend()
    backend.while_loading = lambda: flip(pair.draft if role == "draft" else pair.target, -1)
    with pytest.raises(ArtifactDigestMismatch, match="changed while it was checked") as caught:
        pair.open(backend)
    assert caught.value.check_id == "identity.changed"
    assert [model.closed for model in backend.opened] == [True]
    assert [drafter.closed for drafter in backend.built] == [True]


def test_every_field_of_the_record_survives_its_way_into_the_report(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    with pair.open() as session:
        first = session.generate([1], max_tokens=1).result().report
        second = session.generate([2], max_tokens=1).result().report
    assert first.draft == second.draft == session.plan.draft
