"""Where cached files live."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.cache_dir import cache_dir, cache_subdir
from power_core.errors import ConfigError


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [
        ("/a/b", "/x", "/a/b"),
        ("", "/x", "/x/power"),
        (None, "/x", "/x/power"),
        (None, "relative", "/home/u/.cache/power"),
        (None, "", "/home/u/.cache/power"),
        (None, None, "/home/u/.cache/power"),
        ("~/c", None, "/home/u/c"),
    ],
)
def test_order_of_places(monkeypatch: pytest.MonkeyPatch, own: str | None, xdg: str | None, expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    for name, value in (("POWER_CACHE_DIR", own), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert cache_dir() == Path(expected)


def test_relative_folder_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POWER_CACHE_DIR", "here")
    assert cache_dir() == tmp_path / "here"


def test_unknown_home_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("POWER_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(ConfigError) as caught:
        cache_dir()
    assert "POWER_CACHE_DIR" in caught.value.hint


def test_subfolder_is_made_once_and_failures_name_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path / "c"))
    assert cache_subdir("models") == cache_subdir("models") == tmp_path / "c" / "models"
    assert (tmp_path / "c" / "models").is_dir()
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path / "file"))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be made") as caught:
        cache_subdir("models")
    assert caught.value.field == "POWER_CACHE_DIR"
