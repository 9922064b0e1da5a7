"""Finds the compilers before anything is fetched, and identifies what they would produce here."""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from power_native_build.cuda import cuda_identity
from power_native_build.errors import BuildError

INSTALL_HINT = (
    "Install one and run the same command again: Debian and Ubuntu `apt-get install build-essential`, "
    "Fedora `dnf install gcc gcc-c++`, macOS `xcode-select --install`."
)
NATIVE_OFF = re.compile(r"-DGGML_NATIVE(:\w+)?=(OFF|0|NO|N|FALSE)", re.IGNORECASE)
# Includes the C and C++ libraries, so that their versions are among the macros.
PROBE = "#include <vector>\n#include <cstdint>\n"


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The compilers of a build.

    Attributes:
        c_compiler: Command of the C compiler, with the arguments that CC holds.
        cxx_compiler: Command of the C++ compiler, likewise.
        version: First line of the C++ compiler's `--version`, for people.
        fingerprint: Hex digest of every macro it predefines with the processor's features switched on: version,
            platform, C library and instruction sets in one value.
    """

    c_compiler: tuple[str, ...]
    cxx_compiler: tuple[str, ...]
    version: str
    fingerprint: str


def find_toolchain(env: Mapping[str, str], cmake_args: Sequence[str]) -> Toolchain:
    """Find and try the compilers, as CMake would choose them.

    Raises:
        BuildError: there is none, or it cannot compile a C++17 file.
    """
    named_c, named_cxx = _defined(cmake_args, "CMAKE_C_COMPILER"), _defined(cmake_args, "CMAKE_CXX_COMPILER")
    c_compiler = _find("C", env.get("CC", ""), named_c, ("cc", "gcc", "clang"))
    cxx_compiler = _find("C++", env.get("CXX", ""), named_cxx, ("c++", "g++", "clang++"))
    native = not any(NATIVE_OFF.fullmatch(argument) for argument in cmake_args)
    macros = _predefined_macros(cxx_compiler, native=native)
    version = _run([*cxx_compiler, "--version"])
    facts = "\n".join([version, platform.machine(), cuda_identity(env, cmake_args), *sorted(macros.splitlines())])
    return Toolchain(
        c_compiler=c_compiler,
        cxx_compiler=cxx_compiler,
        version=version.splitlines()[0],
        fingerprint=hashlib.sha256(facts.encode()).hexdigest(),
    )


def _defined(cmake_args: Sequence[str], name: str) -> str:
    """Value of the last `-DNAME=` among the arguments, or an empty text."""
    found = [match[1] for argument in cmake_args if (match := re.fullmatch(rf"-D{name}(?::\w+)?=(.*)", argument))]
    return found[-1] if found else ""


def _find(language: str, from_env: str, from_args: str, names: Sequence[str]) -> tuple[str, ...]:
    named = [from_args] if from_args else shlex.split(from_env)
    candidates = [named] if named else [[name] for name in names]
    for candidate in candidates:
        path = shutil.which(candidate[0])
        if path is not None:
            return (path, *candidate[1:])
    looked_for = ", ".join(candidate[0] for candidate in candidates)
    raise BuildError(f"no {language} compiler found (looked for: {looked_for}). {INSTALL_HINT}")


def _predefined_macros(compiler: Sequence[str], *, native: bool) -> str:
    base = [*compiler, "-std=c++17", "-dM", "-E", "-x", "c++", "-"]
    flag = "-march=native" if platform.machine().lower() in ("x86_64", "amd64", "i686") else "-mcpu=native"
    try:
        return _run([*base, flag] if native else base, stdin=PROBE)
    except BuildError:
        if not native:
            raise
        return _run(base, stdin=PROBE) + platform.processor()


def _run(command: Sequence[str], stdin: str = "") -> str:
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no message"])[0]
        raise BuildError(f"the compiler {command[0]!r} does not work here: {reason}. {INSTALL_HINT}")
    return result.stdout
