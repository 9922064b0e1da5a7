"""The order of a build: compiler, key, cached library or source, patches, compilation, cache."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from power_native_build.archive import Download, Source, locate_source, unpack_source
from power_native_build.cache import cache_root, discard, keep_newest, locked, put_in_place, scratch_folder, sha256_of
from power_native_build.compiling import CompileJob, compile_library
from power_native_build.content_key import base_key, content_key, parse_cmake_args
from power_native_build.patching import apply_patches
from power_native_build.progress import Progress
from power_native_build.toolchain import Toolchain, find_toolchain
from power_native_build.upstream import Upstream, read_upstream

RECORD = "_build.json"
LIBRARIES_KEPT = 8

Compile = Callable[[CompileJob, Path, Progress], None]


def finished_library(
    project: Path,
    env: Mapping[str, str],
    *,
    compile_with: Compile = compile_library,
    download: Download | None = None,
) -> Path:
    """Return the cache entry of the library that belongs to this project, source, compiler and machine.

    The entry holds `power_native/` with `libpower_native.*`, `licenses/` and `_build.json`.
    An intact entry is reused and nothing is fetched or compiled. Safe against concurrent builds: the second one waits.

    Args:
        project: native/, the folder that holds CMakeLists.txt, UPSTREAM.toml, shim/ and patches/.
        env: The environment of the build.
        compile_with: Compiles; replaced by tests.
        download: Fetches the pinned archive; pip by default.

    Raises:
        BuildError: no compiler, no source, a patch that does not apply, or a failed compilation.
    """
    with Progress() as progress:
        toolchain = find_toolchain(env, parse_cmake_args(env))
        upstream = read_upstream(project / "UPSTREAM.toml")
        source = locate_source(upstream, env)
        root = cache_root(env)
        job = _plan(project, root / "build", source, toolchain, env)
        entry = root / "native" / job.key
        with locked(_lock_of(job.work)):
            if is_intact(entry):
                os.utime(entry)
                return entry
            _prepare_source(job, source, upstream, root / "sources", progress, download)
            with scratch_folder(root / "native") as scratch:
                compile_with(job, scratch / "new", progress)
                _record(job, scratch / "new", upstream)
                put_in_place(scratch / "new", entry)
        keep_newest(root / "native", LIBRARIES_KEPT)
        _remove_idle_builds(root / "build", keep=job.work)
        return entry


def is_intact(entry: Path) -> bool:
    """Whether the entry holds a library with the digest that was recorded when it was built."""
    folder = entry / "power_native"
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return bool(sha256_of(folder / record["library"]) == record["library_sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _plan(project: Path, builds: Path, source: Source, toolchain: Toolchain, env: Mapping[str, str]) -> CompileJob:
    base = base_key(project, source.digest, toolchain, env)
    return CompileJob(
        project=project,
        work=builds / base,
        key=content_key(base, project),
        source_suffix=source.suffix,
        toolchain=toolchain,
        env=env,
    )


def _lock_of(work: Path) -> Path:
    return work.with_name(f"{work.name}.lock")


def _prepare_source(
    job: CompileJob, source: Source, upstream: Upstream, sources: Path, progress: Progress, download: Download | None
) -> None:
    """Put the patched source into the job's folder, whole or not at all; one that is there is complete."""
    folder = job.work / "llama.cpp"
    if folder.exists():
        return
    with scratch_folder(folder.parent) as scratch:
        unpack_source(source, upstream, sources, scratch / "llama.cpp", progress, download)
        apply_patches(scratch / "llama.cpp", sorted((job.project / "patches").glob("*.patch")))
        put_in_place(scratch / "llama.cpp", folder)


def _record(job: CompileJob, prefix: Path, upstream: Upstream) -> None:
    folder = prefix / "power_native"
    library = next(folder.glob("libpower_native.*"))
    record = {
        "library": library.name,
        "library_sha256": sha256_of(library),
        "content_key": job.key,
        "llama_commit": upstream.commit + job.source_suffix,
        "cmake_args": job.env.get("CMAKE_ARGS", ""),
        "compiler": job.toolchain.version,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _remove_idle_builds(builds: Path, *, keep: Path) -> None:
    """Remove the objects of other builds, about 60 MB each, unless one of them is running now."""
    for folder in builds.iterdir():
        if folder == keep or not folder.is_dir() or folder.name.startswith("."):
            continue
        with _lock_of(folder).open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            discard(folder)
