"""Admitting a draft: what is measured, what is written, and that nothing half-done is ever left."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import attrs
import pytest
from admission_files import PROVENANCE, Pair, admitted_pair, draft_bytes, flip, write_pair

import power_core.admission
from power_core import whole_file
from power_core.admission import Provenance, read_manifest
from power_core.artifacts import ValueType, identify, scan_header, tokenizer_fingerprint
from power_core.artifacts.shards import merge_shards
from power_core.errors import ArtifactDigestMismatch, ArtifactNotFoundError, ConfigError
from power_core.testing import GgufBytes
from power_core.testing.headers import minimal_target

OTHER = Provenance(source="https://example.org/other", revision="1", license="MIT")


def sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def test_everything_is_measured(tmp_path: Path):
    pair = write_pair(tmp_path)
    result = pair.admit()
    assert (result.written, result.admission.path, result.admission.draft_path) == (True, pair.manifest, pair.draft)
    values = json.loads(pair.manifest.read_text())
    assert values["kind"] == "dflash"
    assert values["draft"] == {
        "file": "draft.gguf",
        "size_bytes": pair.draft.stat().st_size,
        "sha256": sha256(pair.draft),
        "architecture": "dflash",
    }
    assert values["target"] == {
        "size_bytes": pair.target.stat().st_size,
        "sha256": sha256(pair.target),
        "architecture": "qwen3",
    }
    fingerprint = tokenizer_fingerprint(scan_header(pair.target))
    assert values["tokenizer"] == {"model": "gpt2", "fingerprint": fingerprint, "tokens": 4}
    assert [values[name] for name in ("source", "revision", "license")] == [
        PROVENANCE.source,
        PROVENANCE.revision,
        PROVENANCE.license,
    ]
    admitted = datetime.strptime(values["admitted_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - admitted) < timedelta(minutes=5)
    assert read_manifest(pair.manifest) == result.admission.manifest


def test_nothing_else_in_the_folder_is_touched(tmp_path: Path):
    pair = write_pair(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (pair.target, pair.draft)}
    pair.admit()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "draft.gguf",
        "draft.gguf.admission.json",
        "target.gguf",
    ]
    assert pair.manifest.stat().st_mode & 0o777 == 0o644


def test_progress_tells_which_file_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("power_core.artifacts.identity.CHUNK_BYTES", 256)
    pair = write_pair(tmp_path)
    seen: list[tuple[str, int, int]] = []
    pair.admit(progress=lambda *call: seen.append(call))
    for role, path in (("draft", pair.draft), ("target", pair.target)):
        size = path.stat().st_size
        calls = [call for call in seen if call[0] == role]
        assert calls == [(role, min(256 * step, size), size) for step in range(1, -(-size // 256) + 1)]
    assert [role for role, _, _ in seen] == sorted(role for role, _, _ in seen)


def test_admitting_again_changes_nothing(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    before = pair.manifest.read_bytes(), pair.manifest.stat().st_mtime_ns
    result = pair.admit()
    assert not result.written
    assert (pair.manifest.read_bytes(), pair.manifest.stat().st_mtime_ns) == before


def test_another_manifest_is_replaced_by_force_alone(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    before = pair.manifest.read_bytes()
    hashed: list[str] = []
    with pytest.raises(ConfigError, match=r"source: 'https://example\.org/draft', now 'https://") as no:
        pair.admit(OTHER, progress=lambda role, done, total: hashed.append(role))
    assert "--force" in no.value.hint
    assert pair.manifest.read_bytes() == before
    assert hashed == []
    flip(pair.draft, -1)
    with pytest.raises(ConfigError, match=rf"draft: .*{sha256(pair.draft)}"):
        pair.admit()
    assert pair.admit(OTHER, force=True).written
    assert read_manifest(pair.manifest).draft.sha256 == sha256(pair.draft)


def test_a_damaged_manifest_is_replaced_by_force_alone(tmp_path: Path):
    pair = write_pair(tmp_path)
    pair.manifest.write_text("{")
    with pytest.raises(Exception, match="is no JSON object") as caught:
        pair.admit()
    assert "--force" in caught.value.hint
    assert pair.manifest.read_text() == "{"
    pair.admit(force=True)
    assert read_manifest(pair.manifest).kind == "dflash"


def test_a_link_and_a_relative_path_are_admitted_under_the_given_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pair = write_pair(tmp_path)
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "d.gguf").symlink_to(pair.draft)
    monkeypatch.chdir(folder)
    result = Pair(Path("../target.gguf"), Path("d.gguf")).admit()
    assert (folder / "d.gguf.admission.json").exists()
    assert not pair.manifest.exists()
    assert result.admission.manifest.draft.file == "d.gguf"
    assert result.admission.manifest.draft.sha256 == sha256(pair.draft)


@pytest.mark.parametrize("name", ["a\x1bb.gguf", " d.gguf", "a\\b.gguf"])
def test_a_name_that_cannot_be_written_down_is_refused(tmp_path: Path, name: str):
    pair = write_pair(tmp_path)
    odd = Pair(pair.target, pair.draft.rename(tmp_path / name))
    with pytest.raises(ConfigError, match=r"file is .*, expected") as caught:
        odd.admit()
    assert "rename" in caught.value.hint
    assert not odd.manifest.exists()


def test_a_folder_that_cannot_be_written_is_refused_before_hashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pair = write_pair(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    hashed: list[str] = []
    with pytest.raises(ConfigError, match=r"cannot be written: its folder cannot be written"):
        pair.admit(progress=lambda role, done, total: hashed.append(role))
    assert hashed == []


@pytest.mark.parametrize(
    "step", ["tempfile.NamedTemporaryFile", "os.fsync", "pathlib.Path.chmod", "pathlib.Path.replace"]
)
def test_a_disk_that_fails_is_one_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    pair = write_pair(tmp_path)

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
            pair.admit()
    assert {path.name for path in tmp_path.iterdir()} == {"target.gguf", "draft.gguf"}


# ---------------------------------------------------------------------------------------------------- changes meanwhile


@pytest.mark.parametrize("role", ["draft", "target"])
@pytest.mark.parametrize("change", ["flip", "append", "replace", "touch"])
def test_a_file_that_changes_while_it_is_hashed_is_noticed(tmp_path: Path, role: str, change: str):
    pair = write_pair(tmp_path)
    path = pair.draft if role == "draft" else pair.target

    def disturb(hashed: str, done: int, total: int) -> None:
        if hashed == role:
            DISTURBANCES[change](path)

    with pytest.raises(ArtifactDigestMismatch) as caught:
        pair.admit(progress=disturb)
    assert caught.value.check_id in ("identity.changed", "identity.size")
    assert str(path) in str(caught.value)
    assert not pair.manifest.exists()


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


DISTURBANCES: dict[str, Callable[[Path], object]] = {
    "flip": lambda path: flip(path, -1),
    "append": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "replace": replace,
    "touch": lambda path: os.utime(path, ns=(0, 0)),
}


def test_a_draft_that_changes_while_the_target_is_hashed_is_noticed(tmp_path: Path):
    pair = write_pair(tmp_path)
    with pytest.raises(ArtifactDigestMismatch, match=r"draft\.gguf changed while it was checked"):
        pair.admit(progress=lambda role, done, total: flip(pair.draft, -1) if role == "target" else None)
    assert not pair.manifest.exists()


# ------------------------------------------------------------------------------------------------------ split targets


def split_target(folder: Path, *, marks: tuple[int, int, int] = (0, 0, 0)) -> list[Path]:
    contents = [minimal_target(), GgufBytes().with_tensor("blk.0.a"), GgufBytes().with_tensor("blk.0.b")]
    paths = [folder / f"t-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]
    for index, (path, content, mark) in enumerate(zip(paths, contents, marks, strict=True)):
        content = content.with_value("split.no", ValueType.UINT16, index)
        content = content.with_value("split.count", ValueType.UINT16, 3)
        content = content.with_value("split.tensors.count", ValueType.INT32, 4)
        path.write_bytes(content.build()[:-1] + bytes([mark]))
    return paths


def test_a_split_target_is_all_of_its_shards_in_order(tmp_path: Path):
    paths = split_target(tmp_path, marks=(1, 2, 3))
    assert len(merge_shards(scan_header(paths[0])).tensors) == 4
    draft = tmp_path / "d.gguf"
    draft.write_bytes(draft_bytes())
    target = Pair(paths[0], draft).admit().admission.manifest.target
    assert target.sha256 == sha256(*paths) == identify(scan_header(paths[0])).sha256
    assert target.size_bytes == sum(path.stat().st_size for path in paths) == identify(scan_header(paths[0])).size_bytes


@pytest.mark.parametrize("shard", [0, 1, 2])
def test_a_changed_byte_in_any_shard_is_refused(tmp_path: Path, shard: int):
    paths = split_target(tmp_path)
    pair = Pair(paths[0], tmp_path / "d.gguf")
    pair.draft.write_bytes(draft_bytes())
    pair.admit()
    flip(paths[shard], -1)
    with pytest.raises(Exception, match="the target has SHA-256") as caught:
        pair.open()
    assert caught.value.check_id == "admission.target_sha256"


def test_a_missing_shard_and_a_draft_that_is_a_shard(tmp_path: Path):
    paths = split_target(tmp_path)
    with pytest.raises(Exception, match="is the target itself"):
        Pair(paths[0], paths[2]).admit()
    draft = tmp_path / "d.gguf"
    draft.write_bytes(draft_bytes())
    paths[1].unlink()
    with pytest.raises(ArtifactNotFoundError, match=paths[1].name):
        Pair(paths[0], draft).admit()


# --------------------------------------------------------------------------------------------- interrupted at any line

FOLDER = str(Path(power_core.admission.__file__).parent)


@contextmanager
def acting_at_line(number: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Run ``act`` before the ``number``-th line that admission or ``whole_file`` executes; yields the lines left."""
    left = [number]

    def trace(frame: FrameType, event: str, argument: object) -> object:
        if not frame.f_code.co_filename.startswith((FOLDER, whole_file.__file__)):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield left
    finally:
        sys.settrace(before)


LEFT_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Stopped between the body of a ``with`` and its end, Python closes the file later."""


class Stop(BaseException):
    """Not an error that any code expects."""


def stop() -> None:
    raise Stop


@LEFT_OPEN
def test_whatever_line_it_stops_at_the_manifest_is_absent_or_whole(tmp_path: Path):
    pair = write_pair(tmp_path)
    stopped = 0
    for line in range(1, 1_000):
        pair.manifest.unlink(missing_ok=True)
        with acting_at_line(line, stop) as left:
            try:
                pair.admit()
            except Stop:
                stopped += 1
        if pair.manifest.exists():
            assert read_manifest(pair.manifest).draft.sha256 == sha256(pair.draft)
        if left[0] > 0:
            break
    assert stopped == line - 1
    assert stopped > 50


@LEFT_OPEN
def test_whatever_line_it_stops_at_an_old_manifest_stays_or_is_replaced(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    seen = set()
    for line in range(1, 1_000):
        pair.admit(PROVENANCE, force=True)
        with acting_at_line(line, stop) as left, suppress(Stop):
            pair.admit(OTHER, force=True)
        seen.add(read_manifest(pair.manifest).source)
        if left[0] > 0:
            break
    assert seen == {PROVENANCE.source, OTHER.source}


KILLED_WRITES = """
import os, signal, sys
from pathlib import Path
from test_admission_admit import acting_at_line
from power_core.admission.manifest_file import read_manifest, write_manifest

path = Path(sys.argv[1])
manifest = read_manifest(path)
for line in range(1, 100):
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        with acting_at_line(line, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            write_manifest(path, manifest)
        os._exit(0)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(killed, read_manifest(path) == manifest if path.exists() else "absent")
    if killed == 0:
        break
"""


def test_a_process_killed_at_any_line_of_the_writing_leaves_no_part_of_a_manifest(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WRITES, str(pair.manifest)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    *killed, last = [line.split() for line in done.stdout.splitlines()]
    assert len(killed) > 8
    assert {status for status, _ in killed} == {str(-signal.SIGKILL)}
    assert {found for _, found in killed} == {"absent", "True"}
    assert last == ["0", "True"]


def test_leftovers_of_a_killed_process_are_no_manifests(tmp_path: Path):
    pair = admitted_pair(tmp_path)
    (tmp_path / ".d.gguf.admission.json.k3x9.part").write_text("{")
    assert pair.open_without().plan.draft == attrs.evolve(pair.open().plan.draft, admitted=True)
