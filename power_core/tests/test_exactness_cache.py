"""Measurements on disk: what they are kept under, what counts as damage, and writers at the same moment."""

from __future__ import annotations

import json
import os
import threading

import pytest

from power_core.artifacts.model_files import scan_model
from power_core.exactness.cache import FOLDER, ProbeCache
from power_core.exactness.key import model_digest, probe_key
from power_core.exactness.probe import ProbeCell, ProbeTable
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.fakes import FakeModel
from power_core.testing.models import build_tiny_target
from power_core.tokens import TapRequest

KEY = {"model": "m", "library": "l", "threads": 1}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / FOLDER


def cell(depth=8, rows=2, difference=0.0):
    return ProbeCell(depth_tokens=depth, rows=rows, difference=difference)


def table(*cells):
    return ProbeTable(cells=cells)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_what_was_stored_is_loaded_and_added_to():
    assert ProbeCache(key=KEY).load() == ProbeTable()
    assert ProbeCache(key=KEY).store(table(cell(rows=2, difference=0.25))) is None
    assert ProbeCache(key=KEY).store(table(cell(rows=3), cell(depth=300, rows=3))) is None
    assert ProbeCache(key=dict(KEY)).load() == table(
        cell(rows=2, difference=0.25), cell(rows=3), cell(depth=300, rows=3)
    )


@pytest.mark.parametrize("field", sorted(KEY))
def test_another_key_knows_nothing(field):
    ProbeCache(key=KEY).store(table(cell()))
    assert ProbeCache(key={**KEY, field: 2}).load() == ProbeTable()


def test_without_a_key_nothing_is_kept(folder):
    assert ProbeCache(key=None).store(table(cell())) is None
    assert ProbeCache(key=None).load() == ProbeTable()
    assert not folder.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "null",
        lambda text: text.replace('"schema": 1', '"schema": 0'),
        lambda text: text.replace('"threads": 1', '"threads": 2'),
        lambda text: text.replace('"rows": 2', '"rows": "2"'),
        lambda text: text.replace('"rows": 2', '"rows": 0'),
        lambda text: text.replace('"difference": 0.0', '"difference": NaN'),
        lambda text: text.replace('"difference": 0.0', '"difference": -1.0'),
        lambda text: text.replace('"depth_tokens": 8', '"depth_tokens": -8'),
        lambda text: text.replace('"depth_tokens"', '"depth"'),
        lambda text: text.replace('"cells"', '"cell"'),
    ],
)
def test_a_damaged_file_counts_as_absent_and_is_replaced(folder, damage):
    ProbeCache(key=KEY).store(table(cell()))
    path = only_file(folder)
    text = path.read_text()
    assert damage(text) != text
    path.write_text(damage(text))
    assert ProbeCache(key=KEY).load() == ProbeTable()
    assert ProbeCache(key=KEY).store(table(cell(rows=3))) is None
    assert ProbeCache(key=KEY).load() == table(cell(rows=3))


def test_bytes_that_are_no_text_count_as_absent(folder):
    ProbeCache(key=KEY).store(table(cell()))
    only_file(folder).write_bytes(b"\xff\xfe\x00")
    assert ProbeCache(key=KEY).load() == ProbeTable()


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path / "file"))
    assert "cannot be made" in str(ProbeCache(key=KEY).store(table(cell())))
    assert ProbeCache(key=KEY).load() == ProbeTable()


def test_writers_at_the_same_moment_leave_a_whole_file(folder):
    """Every reader sees a sound table; nothing but the one file is left behind."""
    seen, ready = [], threading.Barrier(8)

    def write(rows: int) -> None:
        ready.wait()
        for depth in range(1, 20):
            ProbeCache(key=KEY).store(table(cell(depth=depth, rows=rows)))
            seen.append(len(ProbeCache(key=KEY).load().cells))

    threads = [threading.Thread(target=write, args=(rows,)) for rows in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(seen) >= 1
    assert json.loads(only_file(folder).read_text())["key"] == KEY


# ---------------------------------------------------------------------------------------------------------- the key


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    return build_tiny_target(tmp_path_factory.mktemp("model") / "model.gguf", kind="attention", seed=1)


def key_of(path, *, build="b", model=None, asked=None):
    settings = ContextSettings(ctx_tokens=64, batch_rows=16, **(asked or {}))
    context = FakeModel().open_context(settings)
    return probe_key(scan_model(path), build, ModelSettings(path=path, **(model or {})), settings, context)


def test_everything_that_decides_the_bits_changes_the_key(model_file):
    plain = key_of(model_file)
    others = [
        key_of(model_file, build="c"),
        key_of(model_file, model={"arithmetic": "fast"}),
        key_of(model_file, model={"gpu_layers": 1}),
        key_of(model_file, asked={"threads": 2}),
        key_of(model_file, asked={"flash_attention": "off"}),
        key_of(model_file, asked={"ubatch_rows": 8}),
        key_of(model_file, asked={"snapshots": 2}),
        key_of(model_file, asked={"taps": TapRequest(nextn=True)}),
        key_of(model_file, asked={"taps": TapRequest(layers=(1,))}),
    ]
    assert all(other != plain for other in others)
    assert len({json.dumps(other) for other in others}) == len(others)
    assert key_of(model_file) == plain


def test_a_backend_that_tells_no_build_has_no_key(model_file):
    assert key_of(model_file, build="") is None


def test_the_digest_follows_the_bytes_not_the_name(model_file, tmp_path):
    copy = tmp_path / "other-name.gguf"
    copy.write_bytes(model_file.read_bytes())
    os.utime(copy, (1, 1))
    digest = model_digest(scan_model(model_file))
    assert model_digest(scan_model(copy)) == digest
    other = build_tiny_target(tmp_path / "seed.gguf", kind="attention", seed=2)
    assert model_digest(scan_model(other)) != digest
    longer = build_tiny_target(tmp_path / "hybrid.gguf", kind="hybrid", seed=1)
    assert model_digest(scan_model(longer)) != digest


def test_a_changed_header_changes_the_digest(model_file, tmp_path):
    copy = tmp_path / "copy.gguf"
    data = bytearray(model_file.read_bytes())
    at = data.find(b"attention.layer_norm_rms_epsilon") + len(b"attention.layer_norm_rms_epsilon") + 4
    data[at] ^= 1
    copy.write_bytes(data)
    assert model_digest(scan_model(copy)) != model_digest(scan_model(model_file))
