"""Admission of real draft files by the installed plugins, and sessions on them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from power_core.admission import Provenance, admit_draft, manifest_path
from power_core.artifacts import scan_header
from power_core.errors import ArtifactDigestMismatch, ArtifactPairingError, ConfigError, PowerError
from power_core.opening import open_session
from power_core.plugins.manager import load_plugins
from power_core.testing import build_tiny_target
from power_core.testing.drafts import build_tiny_draft

pytestmark = pytest.mark.native

KINDS = ("dflash", "dflash2", "dspark")
TARGETS = ("hybrid", "attention")
PROVENANCE = Provenance(source="https://example.org/tiny", revision="0", license="MIT")
COMMON = {"ctx": 256, "threads": 1}


@attrs.frozen
class Files:
    target: Path
    draft: Path

    def admit(self) -> None:
        admit_draft(self.target, self.draft, PROVENANCE, load_plugins().validators())

    def refusal(self, *, given: bool = True) -> PowerError:
        with pytest.raises(PowerError) as caught:
            open_session(model=self.target, draft=self.draft if given else None, **COMMON)
        return caught.value


@pytest.fixture(scope="module", params=[(kind, target) for kind in KINDS for target in TARGETS], ids=str)
def admitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    kind, target = request.param
    folder = tmp_path_factory.mktemp(f"{kind}-{target}")
    files = Files(folder / "target.gguf", folder / "draft.gguf")
    build_tiny_target(files.target, kind=target)
    build_tiny_draft(files.draft, kind=kind, target=target)
    files.admit()
    return files


def test_auto_finds_an_admitted_draft_and_decodes_as_the_target_alone(admitted: Files):
    with open_session(model=admitted.target, spec="off", **COMMON) as session:
        plain = session.generate("def main():", max_tokens=40).result()
    with open_session(model=admitted.target, **COMMON) as session:
        assert session.strategy in KINDS
        drafted = session.generate("def main():", max_tokens=40).result()
    assert drafted.tokens == plain.tokens
    assert drafted.report.admitted
    assert drafted.report.draft.kind == session.strategy
    assert drafted.report.drafted_tokens > 0


def test_a_changed_byte_anywhere_in_the_draft_is_refused(admitted: Files, tmp_path: Path):
    copy = Files(admitted.target, tmp_path / "draft.gguf")
    manifest_path(copy.draft).write_bytes(manifest_path(admitted.draft).read_bytes())
    data = admitted.draft.read_bytes()
    start = scan_header(admitted.draft).data_offset_bytes
    name = data.index(b"general.name") + 30
    for offset in (name, start, start + 1, (start + len(data)) // 2, len(data) - 1):
        copy.draft.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        error = copy.refusal()
        assert isinstance(error, ArtifactDigestMismatch)
        assert error.check_id == "admission.draft_sha256"
        assert str(error.expected) in str(error)
        assert str(error.actual) in str(error)
    copy.draft.write_bytes(data)
    open_session(model=copy.target, draft=copy.draft, **COMMON).close()


@pytest.mark.parametrize("target", TARGETS)
def test_a_draft_of_a_target_with_other_weights_is_refused(tmp_path: Path, target: str):
    files = Files(tmp_path / "target.gguf", tmp_path / "draft.gguf")
    build_tiny_target(files.target, kind=target, seed=1)
    build_tiny_draft(files.draft, kind="dflash", target=target)
    files.admit()
    size = files.target.stat().st_size
    build_tiny_target(files.target, kind=target, seed=2)
    assert files.target.stat().st_size == size
    error = files.refusal()
    assert isinstance(error, ArtifactPairingError)
    assert error.check_id == "admission.target_sha256"
    with open_session(model=files.target, **COMMON) as session:
        assert session.strategy == ("mtp" if target == "hybrid" else "off")
        assert "admission" in [event["event"] for event in session.plan.events]


def test_drafts_of_two_targets_that_changed_places_are_refused(tmp_path: Path):
    pairs = [Files(tmp_path / f"target-{seed}.gguf", tmp_path / f"draft-{seed}.gguf") for seed in (1, 2)]
    for seed, files in enumerate(pairs):
        build_tiny_target(files.target, kind="attention", seed=seed)
        build_tiny_draft(files.draft, kind="dspark", target="attention", seed=seed)
        files.admit()
    first, second = pairs
    assert Files(first.target, second.draft).refusal().check_id == "admission.target_sha256"
    first.draft.rename(tmp_path / "kept")
    second.draft.rename(first.draft)
    (tmp_path / "kept").rename(second.draft)
    for files in pairs:
        assert files.refusal().check_id == "admission.draft_sha256"


def test_heads_in_the_target_are_not_loaded_beside_a_draft(tmp_path: Path):
    files = Files(tmp_path / "target.gguf", tmp_path / "draft.gguf")
    build_tiny_target(files.target, kind="hybrid", nextn_layers=1)
    build_tiny_draft(files.draft, kind="dflash", target="hybrid")
    files.admit()
    for settings, strategy, loaded in (({}, "dflash", False), ({"spec": "mtp"}, "mtp", True)):
        with open_session(model=files.target, **COMMON, **settings) as session:
            assert session.strategy == strategy
            assert session.model.settings.load_nextn is loaded
            assert (session.plan.draft is None) is loaded


@pytest.mark.parametrize("spec", ["auto", "dflash"])
def test_a_plugin_that_was_left_out_is_named_and_not_called_absent(admitted: Files, spec: str):
    plugins = load_plugins({"POWER_PLUGINS": "power-native"})
    with pytest.raises(PowerError) as caught:
        open_session(model=admitted.target, draft=admitted.draft, spec=spec, plugins=plugins, **COMMON)
    assert isinstance(caught.value, ConfigError)
    assert "`POWER_PLUGINS` leaves it out" in str(caught.value)
