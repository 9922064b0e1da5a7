"""Compiles the library with CMake and Ninja in a folder of the cache."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from power_native_build.content_key import parse_cmake_args
from power_native_build.cuda import cublas_in_use
from power_native_build.errors import BuildError
from power_native_build.progress import Progress
from power_native_build.toolchain import Toolchain

NINJA_STEP = re.compile(r"\[(\d+)/(\d+)\]")
LOG_LINES_SHOWN = 30
PROJECT_FILES = ("CMakeLists.txt", "UPSTREAM.toml", "cmake/cuda.cmake")


@dataclass(frozen=True, kw_only=True)
class CompileJob:
    """One build.

    Attributes:
        project: The folder that holds CMakeLists.txt and shim/.
        work: The folder of the cache that holds `llama.cpp` (patched); keeps the objects for the next build.
        key: The content key, compiled into the build info.
        source_suffix: Follows llama.cpp's commit in the build info.
        toolchain: The compilers.
        env: The environment of the build.
    """

    project: Path
    work: Path
    key: str
    source_suffix: str
    toolchain: Toolchain
    env: Mapping[str, str]


def compile_library(job: CompileJob, prefix: Path, progress: Progress) -> None:
    """Configure, compile and install one library.

    Args:
        job: What to build.
        prefix: Receives `power_native/libpower_native.*` and `power_native/licenses/`.
        progress: Shows what goes on.

    Raises:
        BuildError: CMake or a compiler failed; the last lines of the log are on stderr and the log stays in `work`.
    """
    _copy_project(job.project, job.work / "project")
    build = job.work / "build"
    cmake = _find_tool("cmake", job.env)
    ninja = _find_tool("ninja", job.env)
    configure = [cmake, "-S", str(job.work / "project"), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure += [
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DPOWER_LLAMA_CPP_SOURCE_DIR={job.work / 'llama.cpp'}",
        f"-DPOWER_SOURCE_SUFFIX={job.source_suffix}",
        f"-DPOWER_CONTENT_KEY={job.key}",
        f"-DPOWER_CMAKE_ARGS={job.env.get('CMAKE_ARGS', '')}",
        f"-DPOWER_COMPILER={job.toolchain.version}",
    ]
    cmake_args = parse_cmake_args(job.env)
    wheel = cublas_in_use(job.env, cmake_args)
    if wheel is not None:
        configure.append(f"-DPOWER_CUBLAS_ROOT={wheel.root}")
    log = job.work / "build.log"
    log.unlink(missing_ok=True)
    started = _Times.now()
    env = _build_environment(job.env)
    _run_logged([*configure, *cmake_args], env, log, progress, "configuring")
    _run_logged([cmake, "--build", str(build), "--target", "power_native"], env, log, progress, "compiling llama.cpp")
    install = [cmake, "--install", str(build), "--component", "power_native", "--strip", "--prefix", str(prefix)]
    _run_logged(install, env, log, progress, "installing")
    _log_cost(log, started, prefix)


@dataclass(frozen=True, kw_only=True)
class _Times:
    """Seconds by the clock, and of processor time in the processes that have ended."""

    wall_s: float
    processor_s: float

    @classmethod
    def now(cls) -> _Times:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(wall_s=time.monotonic(), processor_s=ended.ru_utime + ended.ru_stime)


def _log_cost(log: Path, started: _Times, prefix: Path) -> None:
    """End the log with what the build took; docs/native.md quotes this line."""
    ended = _Times.now()
    n_bytes = sum(path.stat().st_size for path in prefix.glob("power_native/libpower_native.*"))
    with log.open("a", encoding="utf-8") as stream:
        stream.write(
            f"built in {ended.wall_s - started.wall_s:.0f} s, {ended.processor_s - started.processor_s:.0f} s of "
            f"processor time; the library has {n_bytes:,} bytes\n"
        )


def _find_tool(name: str, env: Mapping[str, str]) -> str:
    path = shutil.which(name, path=env.get("PATH"))
    if path is None:
        raise BuildError(f"`{name}` is not on PATH. Build with isolation, or `pip install {name}` first.")
    return path


def _build_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment; SOURCE_DATE_EPOCH would change the instruction sets that ggml compiles for."""
    changed = {name: value for name, value in env.items() if name != "SOURCE_DATE_EPOCH"}
    changed["NINJA_STATUS"] = "[%f/%t] "
    changed.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    return changed


def _copy_project(project: Path, copy: Path) -> None:
    """Bring the copy up to date; unchanged files keep their time, so that Ninja leaves their objects alone."""
    wanted = {Path(name) for name in PROJECT_FILES}
    wanted |= {path.relative_to(project) for path in (project / "shim").iterdir() if path.is_file()}
    for name in wanted:
        content = (project / name).read_bytes()
        target = copy / name
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for path in copy.rglob("*"):
        if path.is_file() and path.relative_to(copy) not in wanted:
            path.unlink()


def _run_logged(command: Sequence[str], env: Mapping[str, str], log: Path, progress: Progress, doing: str) -> None:
    progress.step(doing)
    tail: list[str] = []
    with (
        log.open("a", encoding="utf-8") as stream,
        subprocess.Popen(
            command, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        stream.write(f"$ {' '.join(command)}\n")
        for line in process.stdout or ():
            stream.write(line)
            tail = [*tail[1 - LOG_LINES_SHOWN :], line]
            step = NINJA_STEP.match(line)
            progress.step(f"{doing} [{step[1]}/{step[2]}]" if step else doing)
    if process.returncode != 0:
        print("".join(tail), file=sys.stderr)
        raise BuildError(
            f"{doing} failed with status {process.returncode}; the whole log is {log}. "
            f"Remove the folder {log.parent} to start afresh."
        )
