"""The user's cache folder: where it is, locks between builds, whole or absent folders, digests."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


def cache_root(env: Mapping[str, str]) -> Path:
    """POWER_CACHE_DIR, else XDG_CACHE_HOME/power, else ~/.cache/power."""
    if env.get("POWER_CACHE_DIR"):
        return Path(env["POWER_CACHE_DIR"]).expanduser().absolute()
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]).absolute() / "power"
    return Path.home() / ".cache" / "power"


def sha256_of(path: Path) -> str:
    """Lower-case hex digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes; waits for the holder. The lock ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A new folder inside the cache, so that what it holds can be renamed into place; removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".tmp-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(folder: Path, destination: Path) -> None:
    """Make `folder` appear as `destination`, whole, replacing what is there."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    if destination.exists():
        discard(destination)
    folder.rename(destination)


def discard(folder: Path) -> None:
    """Remove a folder; whoever looks finds it whole or not at all. Another process may be faster."""
    with scratch_folder(folder.parent) as trash, contextlib.suppress(FileNotFoundError):
        folder.rename(trash / "discarded")


def keep_newest(parent: Path, count: int) -> None:
    """Remove all but the `count` folders of `parent` that were used last."""
    folders = [entry for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    folders.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for folder in folders[count:]:
        discard(folder)
