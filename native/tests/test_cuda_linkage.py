"""What a library built with CUDA needs and how it behaves without a driver.

Needs such a library, named by ``POWER_CUDA_LIBRARY`` (``pytest -m gpu native/tests/test_cuda_linkage.py``); everywhere
else these tests are reported as not run.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from elf_facts import SYSTEM_LIBRARIES, dynamic_values, exported_names, searched_folders
from elftools.elf.elffile import ELFFile

from power_native import _raw

pytestmark = pytest.mark.gpu

VARIABLE = "POWER_CUDA_LIBRARY"
# libcublasLt comes with libcublas. The driver, libcuda.so.1, must not be among them: it is absent on CPU machines.
RUNTIME = {"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"}
BYTES_LIMIT = 120_000_000
CPU_RUN = """
from power_native.info import cuda_info, devices
from power_native.plugin import _check_cuda
cuda = cuda_info()
assert cuda is not None and cuda.compiled_version.startswith("13."), cuda
if cuda.driver_version is None:
    assert [device.kind for device in devices()] == ["cpu"], devices()
    (result,) = _check_cuda()
    assert result.status == "warning" and "runs on the CPU" in result.detail, result
print("loaded")
"""


@pytest.fixture(scope="module")
def cuda_library() -> Path:
    named = os.environ.get(VARIABLE)
    assert named, f"set {VARIABLE} to a library that was built with -DGGML_CUDA=on"
    return Path(named)


@pytest.fixture
def elf(cuda_library: Path) -> Iterator[ELFFile]:
    with cuda_library.open("rb") as stream:
        yield ELFFile(stream)


def test_the_same_functions_are_exported_as_without_cuda(elf: ELFFile) -> None:
    assert exported_names(elf) == set(_raw.FUNCTIONS)


def test_only_the_system_and_the_cuda_runtime_are_needed_never_the_driver(elf: ELFFile) -> None:
    needed = dynamic_values(elf, "DT_NEEDED", "needed")
    assert needed <= SYSTEM_LIBRARIES | RUNTIME
    assert "libcudart.so.13" in needed


def test_the_runtime_is_looked_for_beside_the_package_and_in_the_toolkit(elf: ELFFile) -> None:
    (text,) = searched_folders(elf)
    first, *others = text.split(":")
    assert first == "$ORIGIN/../nvidia/cu13/lib"
    assert len(others) == 1
    assert Path(others[0]).is_absolute()
    assert "cublas/lib" not in others[0]


def test_it_is_stripped_and_of_a_reasonable_size(elf: ELFFile, cuda_library: Path) -> None:
    assert elf.get_section_by_name(".symtab") is None
    assert cuda_library.stat().st_size < BYTES_LIMIT


def test_it_loads_and_says_what_is_missing_where_there_is_no_driver(cuda_library: Path) -> None:
    env = {**os.environ, "POWER_NATIVE_LIBRARY": str(cuda_library)}
    result = subprocess.run([sys.executable, "-c", CPU_RUN], env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "loaded\n"
