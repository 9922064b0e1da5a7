"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.whole_file import READABLE_BY_ALL, whole_file


def test_the_file_appears_when_the_block_ends(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with whole_file(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == READABLE_BY_ALL
    assert list(tmp_path.iterdir()) == [path]


def write_half(path: Path, error: type[BaseException]) -> None:
    with whole_file(path) as partial:
        partial.write_text("ne")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_everything_is_as_it_was(tmp_path: Path, error: type[BaseException]):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_absent_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "absent" / "a.json"):
        pass
