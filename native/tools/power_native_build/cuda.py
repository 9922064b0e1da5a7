"""What a CUDA build needs from Python packages: cuBLAS, where the toolkit has none."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CUBLAS_DISTRIBUTION = "nvidia-cublas"
# The wheel without a suffix begins with CUDA 13; older ones have another name and layout.
FIRST_CUBLAS_WHEEL = 13
_ON = re.compile(r"-DGGML_CUDA(?::\w+)?=(ON|1|YES|Y|TRUE)", re.IGNORECASE)
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)
_RELEASE = re.compile(r"release (\d+)\.(\d+)")


@dataclass(frozen=True, kw_only=True)
class CudaToolkit:
    """An installed toolkit.

    Attributes:
        version: All that ``nvcc --version`` prints.
        major: Its major version, 0 when the text does not say.
        has_cublas: The toolkit's own folders hold cuBLAS's header.
    """

    version: str
    major: int
    has_cublas: bool


@dataclass(frozen=True, kw_only=True)
class CublasWheel:
    """An importable ``nvidia-cublas``.

    Attributes:
        root: Folder with ``include`` and ``lib``.
        version: Of the wheel.
    """

    root: Path
    version: str


def wants_cuda(cmake_args: Sequence[str]) -> bool:
    """Tell whether the arguments switch CUDA on; the last ``-DGGML_CUDA`` counts."""
    named = [argument for argument in cmake_args if re.match(r"-DGGML_CUDA(?::\w+)?=", argument)]
    return bool(named) and _ON.fullmatch(named[-1]) is not None


def find_cuda_toolkit(env: Mapping[str, str], cmake_args: Sequence[str]) -> CudaToolkit | None:
    """Find the toolkit as CMake does: ``CMAKE_CUDA_COMPILER``, ``CUDACXX``, ``nvcc`` on PATH; None without one."""
    named = [
        match[1] for argument in cmake_args if (match := re.match(r"-DCMAKE_CUDA_COMPILER(?::\w+)?=(.+)", argument))
    ]
    compiler = shutil.which(named[-1] if named else env.get("CUDACXX") or "nvcc", path=env.get("PATH"))
    if compiler is None:
        return None
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    release = _RELEASE.search(version)
    root = _toolkit_root(compiler)
    folders = (root / "include", *root.glob("targets/*/include"), Path("/usr/include"))
    return CudaToolkit(
        version=version,
        major=int(release[1]) if release else 0,
        has_cublas=any((folder / "cublas_v2.h").is_file() for folder in folders),
    )


def _toolkit_root(compiler: str) -> Path:
    """Folder of the toolkit, which the compiler names itself: the command may be a script that only calls it."""
    command = [compiler, "--dryrun", "-x", "cu", os.devnull]
    dry_run = subprocess.run(command, capture_output=True, text=True, check=False)
    top = _TOP.search(dry_run.stdout + dry_run.stderr)
    return Path(top[1]).resolve() if top else Path(os.path.realpath(compiler)).parent.parent


def cuda_requirements(env: Mapping[str, str], cmake_args: Sequence[str]) -> list[str]:
    """Return what the build environment needs besides the fixed requirements: cuBLAS, or nothing."""
    if not wants_cuda(cmake_args):
        return []
    toolkit = find_cuda_toolkit(env, cmake_args)
    if toolkit is None or toolkit.has_cublas or toolkit.major < FIRST_CUBLAS_WHEEL:
        return []
    return [f"{CUBLAS_DISTRIBUTION}>={toolkit.major},<{toolkit.major + 1}"]


def find_cublas_wheel(major: int) -> CublasWheel | None:
    """Return the wheel that this Python can import, None when there is none for the toolkit's major version."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        root = Path(folder) / f"cu{major}"
        if (root / "lib" / f"libcublas.so.{major}").is_file():
            return CublasWheel(root=root, version=importlib.metadata.version(CUBLAS_DISTRIBUTION))
    return None


def cublas_in_use(env: Mapping[str, str], cmake_args: Sequence[str]) -> CublasWheel | None:
    """Return the wheel that the build takes cuBLAS from, None when it needs none or the user named a folder."""
    if not wants_cuda(cmake_args) or any("POWER_CUBLAS_ROOT" in argument for argument in cmake_args):
        return None
    toolkit = find_cuda_toolkit(env, cmake_args)
    if toolkit is None or toolkit.has_cublas:
        return None
    return find_cublas_wheel(toolkit.major)


def cuda_identity(env: Mapping[str, str], cmake_args: Sequence[str]) -> str:
    """Text that changes with the CUDA compiler and with cuBLAS; empty for a build without CUDA."""
    if not wants_cuda(cmake_args):
        return ""
    toolkit, wheel = find_cuda_toolkit(env, cmake_args), cublas_in_use(env, cmake_args)
    return f"{toolkit.version if toolkit else ''}\n{CUBLAS_DISTRIBUTION} {wheel.version if wheel else ''}"
