"""Builds llama-server from the pinned source, unpatched, with the compiler and options of Power's own library.

    python benchmarks/peers/server_build.py        # prints the path of the program

The program is kept in the cache. No network beyond the source archive, which Power's own build has fetched already:
the server's pages and TLS are left out, and nothing of them runs in a benchmark.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from power_core.errors import PowerError

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "native" / "tools"))

from power_native_build.archive import cached_archive, download_with_pip, locate_source  # noqa: E402
from power_native_build.cache import cache_root, locked, scratch_folder  # noqa: E402
from power_native_build.content_key import parse_cmake_args  # noqa: E402
from power_native_build.errors import BuildError  # noqa: E402
from power_native_build.progress import Progress  # noqa: E402
from power_native_build.toolchain import find_toolchain  # noqa: E402
from power_native_build.upstream import Upstream, read_upstream  # noqa: E402

PROGRAM = "llama-server"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
    "-DGGML_NATIVE=ON",
    "-DGGML_LLAMAFILE=ON",
    "-DGGML_OPENMP=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_COMMON=ON",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_SERVER=ON",
    "-DLLAMA_BUILD_NUMBER=0",
    "-DGIT_EXE=",
)
LOG_LINES_SHOWN = 30


def llama_server(env: Mapping[str, str] = os.environ) -> Path:
    """Return the program, built at first use; ``CMAKE_ARGS`` and compilers are read as Power's own build does.

    Raises:
        PowerError: no compiler, no source, or a failed compilation.
    """
    upstream = read_upstream(ROOT / "native" / "UPSTREAM.toml")
    try:
        source = locate_source(upstream, env)
        commit = f"-DLLAMA_BUILD_COMMIT={upstream.commit}{source.suffix}"
        options = (*OPTIONS, commit, *parse_cmake_args(env))
        facts = "\n".join((source.digest, find_toolchain(env, options).fingerprint, *options))
        key = hashlib.sha256(facts.encode()).hexdigest()[:16]
        program = cache_root(env) / "bench" / f"{PROGRAM}-{key}"
        with locked(program.with_suffix(".lock")):
            if not program.is_file():
                _build(source.folder, source.archive, upstream, options, program, env)
    except BuildError as error:
        raise PowerError(f"{PROGRAM}: {error}", hint="name a finished one with --llama-server") from error
    return program


def _build(
    folder: Path | None,
    archive: Path | None,
    upstream: Upstream,
    options: Sequence[str],
    program: Path,
    env: Mapping[str, str],
) -> None:
    """Compile in a scratch folder and move the program to its place."""
    with scratch_folder(program.parent) as scratch, Progress() as progress:
        if folder is None:
            archive = archive or cached_archive(upstream, cache_root(env) / "sources", progress, download_with_pip)
            progress.step("unpacking the source")
            folder = unpack(archive, upstream.folder, scratch / "source")
        generator = ("-G", "Ninja") if shutil.which("ninja", path=env.get("PATH")) else ()
        build = scratch / "build"
        progress.step(f"compiling {PROGRAM}")
        run_command(["cmake", "-S", str(folder), "-B", str(build), *generator, *options])
        jobs = env.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        run_command(["cmake", "--build", str(build), "--target", PROGRAM, "--parallel", jobs])
        (build / "bin" / PROGRAM).rename(program)


def unpack(archive: Path, folder: str, destination: Path) -> Path:
    """Unpack llama.cpp's folder of the archive and return where it lies."""
    with tarfile.open(archive, "r:gz") as tar:
        members = (member for member in tar if member.name.startswith(f"{folder}/"))
        tar.extractall(destination, members, filter="data")
    return destination / folder


def run_command(command: Sequence[str]) -> None:
    """Run a command quietly.

    Raises:
        BuildError: it cannot be run or fails; carries the end of its output.
    """
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as error:
        raise BuildError(f"`{command[0]}` cannot be run: {error}. Install it, for instance with pip.") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-LOG_LINES_SHOWN:])
        raise BuildError(f"`{' '.join(command)}` failed with status {done.returncode}:\n{tail}")


if __name__ == "__main__":
    print(llama_server())
