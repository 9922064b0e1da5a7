"""What identifies a build: equal keys mean that the finished library can be reused."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from power_native_build.toolchain import Toolchain

FLAG_VARIABLES = (
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "ASMFLAGS",
    "CUDAFLAGS",
    "CUDAARCHS",
    "MACOSX_DEPLOYMENT_TARGET",
)
# The files of this folder that decide which source is compiled and with which flags.
RECIPE_FILES = ("archive.py", "compiling.py", "cuda.py", "patching.py")
KEY_DIGITS = 24


def parse_cmake_args(env: Mapping[str, str]) -> list[str]:
    """The arguments of CMAKE_ARGS, split as a shell does."""
    return shlex.split(env.get("CMAKE_ARGS", ""))


def base_key(project: Path, source_digest: str, toolchain: Toolchain, env: Mapping[str, str]) -> str:
    """Identify everything but the shim: builds that share it can share compiled objects of llama.cpp.

    Args:
        project: The folder that holds CMakeLists.txt.
        source_digest: Digest of the source archive or of the named folder.
        toolchain: The compilers.
        env: The environment of the build.
    """
    facts = [
        ("source", source_digest),
        *_contents([project / "CMakeLists.txt", project / "cmake" / "cuda.cmake", project / "UPSTREAM.toml"]),
        *_contents(sorted((project / "patches").glob("*.patch"))),
        *_contents(project / "tools" / "power_native_build" / name for name in RECIPE_FILES),
        ("toolchain", toolchain.fingerprint),
        ("compilers", shlex.join([*toolchain.c_compiler, *toolchain.cxx_compiler])),
        ("arguments", "\n".join(parse_cmake_args(env))),
        *((name, env.get(name, "")) for name in FLAG_VARIABLES),
    ]
    return _digest(facts)


def content_key(base: str, project: Path) -> str:
    """Identify the library: the base and every file of the shim."""
    return _digest(
        [("base", base), *_contents(sorted(path for path in (project / "shim").iterdir() if path.is_file()))]
    )


def folder_digest(folder: Path, parts: Iterable[str]) -> str:
    """Digest of the names and bytes of all files below the named parts of a folder."""
    files = [
        path
        for part in parts
        for path in ([folder / part] if (folder / part).is_file() else sorted((folder / part).rglob("*")))
        if path.is_file()
    ]
    return _digest([(path.relative_to(folder).as_posix(), text) for path in files for _, text in _contents([path])])


def _contents(paths: Iterable[Path]) -> list[tuple[str, str]]:
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]


def _digest(facts: Iterable[tuple[str, str]]) -> str:
    total = hashlib.sha256()
    for name, value in facts:
        for text in (name, value):
            encoded = text.encode()
            total.update(len(encoded).to_bytes(8, "little") + encoded)
    return total.hexdigest()[:KEY_DIGITS]
