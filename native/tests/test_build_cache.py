"""The build's cache folder: where it is, and what is removed from it."""

import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from power_core.cache_dir import cache_dir
from power_native_build.cache import cache_root, keep_newest, scratch_folder
from power_native_build.errors import BuildError

DAY_S = 24 * 3600


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"POWER_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/power")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache" / "power"),
        ({"POWER_CACHE_DIR": "relative"}, Path.cwd() / "relative"),
        ({"POWER_CACHE_DIR": "~/here"}, Path.home() / "here"),
        ({"POWER_CACHE_DIR": "", "XDG_CACHE_HOME": ""}, Path.home() / ".cache" / "power"),
        ({}, Path.home() / ".cache" / "power"),
    ],
)
def test_cache_folder_is_the_one_that_the_core_uses(monkeypatch, variables, expected):
    for name in ("POWER_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root(variables) == expected
    assert cache_dir() == expected


def test_unknown_home_is_a_message_and_not_needed_when_a_folder_is_named(monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    assert cache_root({"POWER_CACHE_DIR": "/a"}) == Path("/a")
    with pytest.raises(BuildError, match=r"home folder is unknown .*Set POWER_CACHE_DIR"):
        cache_root({})


def test_keep_newest_removes_the_least_recently_used(tmp_path):
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    keep_newest(tmp_path, 2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["middle", "new"]


def test_scratch_folders_of_killed_builds_are_removed_after_a_day(tmp_path):
    now_s = time.time()
    for name, age_s in ((".tmp-killed", DAY_S + 60), (".tmp-running", DAY_S - 60), ("finished", 90 * DAY_S)):
        (tmp_path / name / "content").mkdir(parents=True)
        os.utime(tmp_path / name, (now_s - age_s, now_s - age_s))
    with scratch_folder(tmp_path) as scratch:
        assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([".tmp-running", "finished", scratch.name])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".tmp-running", "finished"]
