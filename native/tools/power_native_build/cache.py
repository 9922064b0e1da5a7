"""The user's cache folder: where it is, locks between builds, whole or absent folders, digests."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from power_native_build.errors import BuildError

SCRATCH_PREFIX = ".tmp-"
ABANDONED_AFTER_S = 24 * 3600.0


def cache_root(env: Mapping[str, str]) -> Path:
    """POWER_CACHE_DIR, else XDG_CACHE_HOME/power unless it is relative, else ~/.cache/power.

    The same rule as `power_core.cache_dir`, which a build cannot import.

    Raises:
        BuildError: the home folder is needed and unknown.
    """
    chosen, xdg = env.get("POWER_CACHE_DIR", ""), env.get("XDG_CACHE_HOME", "")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        if xdg and Path(xdg).is_absolute():
            return Path(xdg) / "power"
        return Path.home() / ".cache" / "power"
    except RuntimeError as error:
        raise BuildError(
            f"the home folder is unknown ({error}), so there is no place for built libraries. "
            "Set POWER_CACHE_DIR to an absolute path."
        ) from error


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
    """A new folder inside the cache, so that what it holds can be renamed into place; removed at the end.

    Folders that killed processes left here are removed at the beginning.
    """
    parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    oldest_s = time.time() - ABANDONED_AFTER_S
    for folder in parent.glob(f"{SCRATCH_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_mtime < oldest_s:
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
