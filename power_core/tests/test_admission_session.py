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
        (True, "mtp", "no draft beside the target is admitted for it; its own file holds prediction heads"),
        (False, "off", "no draft beside the target is admitted for it, and its own file drafts nothing"),
    ],
)
def test_auto_without_an_admitted_draft_goes_on_and_says_why(tmp_path: Path, nextn: bool, chosen: str, reason: str):
    pair = write_pair(tmp_path, nextn=nextn)  # a draft lies there, but nothing vouches for it
    with pair.open_without() as session:
        event = auto_event(session)
        assert (session.strategy, event["chosen"], event["reason"]) == (chosen, chosen, reason)
        assert session.plan.draft is None
        assert session.generate([1], max_tokens=1).result().report.admitted is None


@pytest.mark.parametrize("change", ["same size", "longer"])
def test_auto_says_when_drafts_are_admitted_for_another_target(tmp_path: Path, change: str):
    pair = admitted_pair(tmp_path, nextn=True)
    admitted, size = sha256(pair.target), pair.target.stat().st_size
    if change == "longer":
        pair.target.write_bytes(pair.target.read_bytes() + b"\0")
    else:
        flip(pair.target, -1)
    with pair.open_without() as session:
        assert session.strategy == "mtp"
        (event,) = [event for event in session.plan.events if event["event"] == "admission"]
    assert f"draft.gguf for one of {size} bytes with SHA-256 {admitted}" in event["detail"]
    assert f"target.gguf has {pair.target.stat().st_size} bytes" in event["detail"]
    assert (sha256(pair.target) in event["detail"]) == (change == "same size")


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


def test_of_two_targets_of_one_size_each_finds_its_own_draft(tmp_path: Path):
    pairs = [admitted_pair(tmp_path, f"-{mark}", mark=mark) for mark in (1, 2)]
    for pair in pairs:
        with pair.open_without() as session:
            assert session.plan.draft.file == pair.draft.name
    third = write_pair(tmp_path, "-3", mark=3)
    with third.open_without() as session:
        assert session.strategy == "off"


@pytest.mark.parametrize("field", ["needs", "most_drafts", "most_ctx", "create_drafter"])
def test_an_error_of_a_strategy_about_a_found_draft_says_how_it_was_found(tmp_path: Path, field: str):
    def fail(*arguments: object) -> object:
        raise ConfigError("no", field="draft")

    pair = admitted_pair(tmp_path)
    for opening, says_so in ((pair.open_without, True), (pair.open, False)):
        with pytest.raises(ConfigError) as caught:
            opening(FakeBackend(**{field: fail}))
        assert (f"the draft was found through {pair.manifest}" in caught.value.hint) is says_so


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
    whole = [("hash draft", sizes[0], sizes[0]), ("hash target", sizes[1], sizes[1])]
    assert [call for call in seen if call[0] != "load"] == whole
    seen.clear()
    pair.open_without(progress=lambda *call: seen.append(call)).close()
    assert [call for call in seen if call[0] != "load"] == whole[::-1]  # the search has to know the target first
    seen.clear()
    pair.manifest.unlink()
    pair.open(progress=lambda *call: seen.append(call)).close()
    assert [call for call in seen if call[0] != "load"] == whole[:1]


def test_cheap_refusals_come_before_any_hashing(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    hashed: list[object] = []
    for settings in ({"mtp_fr_vocab_size": 2048}, {"draft_max": 64, "batch": 8}, {"spec": "off"}, {"spec": "dspark"}):
        with pytest.raises((ConfigError, UnsupportedStrategyError)):
            pair.open(progress=lambda *call: hashed.append(call), **settings)
    backend = FakeBackend(most_ctx=lambda target, draft: 255, has_confidence=lambda target, draft: False)
    for settings in ({"ctx": 256}, {"ctx": 255, "draft_p_min": 0.5}):
        with pytest.raises(ConfigError):
            pair.open(backend, progress=lambda *call: hashed.append(call), **settings)
    assert hashed == []
    assert backend.models == []


@pytest.mark.parametrize("role", ["draft", "target"])
def test_a_file_of_another_size_is_measured_for_the_error_alone(tmp_path: Path, role: str):
    pair = admitted_pair(tmp_path)
    path = {"draft": pair.draft, "target": pair.target}[role]
    recorded = sha256(path)
    path.write_bytes(path.read_bytes() + b"\0")
    seen: list[tuple[str, int, int]] = []
    with pytest.raises(ArtifactError) as caught:
        pair.open(progress=lambda *call: seen.append(call))
    assert caught.value.check_id == f"admission.{role}_size"
    for digest in (recorded, sha256(path)):
        assert digest in str(caught.value)
    size = path.stat().st_size
    assert seen == [(f"hash {role}", size, size)]


def test_the_default_context_follows_the_draft_and_says_so(tmp_path: Path):
    pair = write_pair(tmp_path)
    with pair.open(FakeBackend(most_ctx=lambda target, draft: 40), ctx=None, batch=32) as session:
        (event,) = [event for event in session.plan.events if event["event"] == "ctx_clamped"]
        assert event["granted"] == 40
        assert session.plan.shown["ctx"] == 40
    with pair.open(FakeBackend(most_ctx=lambda target, draft: 256)) as session:
        assert "ctx_clamped" not in [event["event"] for event in session.plan.events]


def test_a_longer_context_than_the_draft_s_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"`ctx` is 256 tokens, but the draft was trained for 255") as caught:
        write_pair(tmp_path).open(FakeBackend(most_ctx=lambda target, draft: 255))
    assert (caught.value.field, caught.value.hint) == ("ctx", "use `--ctx 255` or less")


def test_a_session_without_a_draft_hashes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("power_core.artifacts.model_files.identify", lambda *arguments: pytest.fail("hashed"))
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
