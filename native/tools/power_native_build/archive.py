"""Obtains llama.cpp's source: a named folder, a named archive, or the pinned archive in the user's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from power_native_build.cache import scratch_folder, sha256_of
from power_native_build.content_key import folder_digest
from power_native_build.errors import BuildError
from power_native_build.progress import Progress
from power_native_build.upstream import Upstream

VARIABLE = "POWER_LLAMA_CPP_SOURCE"
# What the library is compiled from; the rest of the tree (models, docs, tools) is four times as large.
PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "ggml", "include", "src", "vendor")

Download = Callable[[Upstream, Path, Progress], None]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the source comes from, before anything is fetched.

    Attributes:
        digest: Identifies its contents: the pinned SHA-256, or the digest of the named folder.
        folder: The named folder, or None.
        archive: The named archive, or None; with neither, the pinned one of the cache.
    """

    digest: str
    folder: Path | None = None
    archive: Path | None = None

    @property
    def suffix(self) -> str:
        """Follows the commit wherever the library names it: a named folder may hold anything of that version."""
        return f"+folder.{self.digest[:8]}" if self.folder is not None else ""


def locate_source(upstream: Upstream, env: Mapping[str, str]) -> Source:
    """Decide where the source comes from.

    Raises:
        BuildError: POWER_LLAMA_CPP_SOURCE names neither a llama.cpp folder nor the pinned archive.
    """
    value = env.get(VARIABLE, "")
    if not value:
        return Source(digest=upstream.sha256)
    path = Path(value).expanduser().absolute()
    if path.is_file():
        return Source(digest=upstream.sha256, archive=path)
    missing = [part for part in PARTS if not (path / part).exists()]
    if missing:
        raise BuildError(
            f"{VARIABLE} is {value!r}, which is neither a file nor a llama.cpp folder (it lacks {', '.join(missing)}). "
            f"Name llama.cpp's own folder at commit {upstream.commit}, or the archive {upstream.archive_name}."
        )
    return Source(digest=folder_digest(path, PARTS), folder=path)


def unpack_source(
    source: Source,
    upstream: Upstream,
    sources: Path,
    destination: Path,
    progress: Progress,
    download: Download | None = None,
) -> None:
    """Put the files of llama.cpp that are compiled into `destination`, which must not exist.

    Args:
        source: As `locate_source` returned it.
        upstream: The pin.
        sources: The cache's folder of archives.
        destination: llama.cpp's new folder.
        progress: Shows what goes on.
        download: Fetches the pinned archive into a folder; pip by default.

    Raises:
        BuildError: the archive cannot be fetched, or is not the pinned one.
    """
    if source.folder is not None:
        for part in PARTS:
            origin = source.folder / part
            copy = shutil.copytree if origin.is_dir() else shutil.copy2
            (destination / part).parent.mkdir(parents=True, exist_ok=True)
            copy(origin, destination / part)
        return
    archive = source.archive or cached_archive(upstream, sources, progress, download or download_with_pip)
    if sha256_of(archive) != upstream.sha256:
        raise BuildError(_mismatch(archive, upstream, "Name another file"))
    progress.step("unpacking the source")
    _unpack(archive, upstream.folder, destination)


def cached_archive(upstream: Upstream, sources: Path, progress: Progress, download: Download) -> Path:
    """The pinned archive in the cache, fetched when it is not there; its digest has been checked.

    Raises:
        BuildError: the digest differs; the bad file has been removed.
    """
    archive = sources / upstream.archive_name
    with scratch_folder(sources) as scratch:
        fetched = archive
        if not archive.exists():
            download(upstream, scratch, progress)
            fetched = scratch / upstream.archive_name
        if not fetched.exists():
            found = sorted(entry.name for entry in scratch.iterdir())
            raise BuildError(f"the download brought {found}, expected {upstream.archive_name!r}")
        if sha256_of(fetched) != upstream.sha256:
            message = _mismatch(fetched, upstream, "It was removed; run the command again")
            fetched.unlink()
            raise BuildError(message)
        fetched.rename(archive)
    return archive


def download_with_pip(upstream: Upstream, folder: Path, progress: Progress) -> None:
    """Fetch the archive by name through pip, which checks the digest before it runs any code of the archive.

    Raises:
        BuildError: pip failed; carries its last line.
    """
    requirement = folder / "requirement.txt"
    requirement.write_text(
        f"{upstream.distribution}=={upstream.version} --hash=sha256:{upstream.sha256}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
    command += ["--progress-bar", "off", "--dest", str(folder), "--requirement", str(requirement)]
    what = f"{upstream.distribution} {upstream.version}"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        output = ""
        while True:
            progress.step(f"downloading {what}")
            try:
                output, _ = process.communicate(timeout=1.0)
                break
            except subprocess.TimeoutExpired:
                continue
    if process.returncode != 0:
        errors = [line for line in output.splitlines() if line.lstrip().startswith("ERROR")] or output.splitlines()[-3:]
        raise BuildError(
            f"pip could not download {what}: {' '.join(errors)} "
            f"Check the network and pip's index, or set {VARIABLE} to a copy of {upstream.archive_name}."
        )


def _mismatch(archive: Path, upstream: Upstream, next_step: str) -> str:
    return (
        f"{archive} has SHA-256 {sha256_of(archive)}, UPSTREAM.toml pins {upstream.sha256}. "
        f"{next_step}: the archive must be {upstream.distribution} {upstream.version} as published."
    )


def _unpack(archive: Path, folder: str, destination: Path) -> None:
    prefixes = tuple(f"{folder}/{part}" for part in PARTS)
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            if not member.isfile() or not member.name.startswith(prefixes):
                continue
            target = destination / Path(member.name).relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            stream = tar.extractfile(member)
            if stream is not None:
                with target.open("wb") as output:
                    shutil.copyfileobj(stream, output)
