"""Text of the zoo: the Python standard library's sources, split by file into training, validation and held-out.

A file's split follows from the hash of its path alone, so it never moves between splits. Licence: PSF-2.0.
"""

from __future__ import annotations

import hashlib
import sysconfig
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

Split: TypeAlias = Literal["training", "validation", "heldout"]

TABLES = ("encodings", "pydoc_data", "lib2to3/tests/data", "test/encoded_modules", "site-packages", "dist-packages")
LONGEST_LINE = 400
HELDOUT_PERCENT = 3
VALIDATION_PERCENT = 2


@attrs.frozen(kw_only=True)
class SourceFile:
    """One file: its path below the standard library's folder and its text."""

    path: str
    text: str


def read_split(split: Split, most_files: int = 0) -> list[SourceFile]:
    """Read the files of a split (0: all), sorted by path; tables of data and files that are not UTF-8 are left out."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    wanted = (path for path in paths if not path.startswith(TABLES) and split_of(path) == split)
    texts = ((path, _read(root / path)) for path in wanted)
    files = (SourceFile(path=path, text=text) for path, text in texts if text)
    return list(islice(files, most_files or None))


def split_of(path: str) -> Split:
    """Return the split of a path below the standard library's folder."""
    percent = int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big") % 100
    if percent < HELDOUT_PERCENT:
        return "heldout"
    return "validation" if percent < HELDOUT_PERCENT + VALIDATION_PERCENT else "training"


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    longest = max((len(line) for line in text.splitlines()), default=0)
    return text if longest <= LONGEST_LINE else None
