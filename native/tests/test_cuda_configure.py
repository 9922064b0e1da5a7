"""What a CUDA build finds and refuses before anything is compiled: toolkit, cuBLAS, architectures, keys."""

import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from power_native_build import cuda
from power_native_build.cuda import CublasWheel, CudaToolkit, cuda_identity, cuda_requirements, wants_cuda

NATIVE = Path(__file__).resolve().parent.parent
NVCC = """#!/bin/sh
case "$1" in
  --version) echo 'Cuda compilation tools, release {release}, V{release}.88' ;;
  --dryrun) echo '#$ TOP={root}/bin/..' >&2 ;;
  *) echo '#$ TOP={root}/bin/..' >&2 ;;
esac
"""
PROJECT = """cmake_minimum_required(VERSION 3.21)
project(probe LANGUAGES C)
option(GGML_NATIVE "" ON)
include("{native}/cmake/cuda.cmake")
power_prepare_cuda()
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A folder that looks like CUDA 13.0 without cuBLAS and without a GPU."""
    root = tmp_path / "cuda"
    executable(root / "bin" / "nvcc", NVCC.format(release="13.0", root=root))
    executable(root / "bin" / "__nvcc_device_query", "#!/bin/sh\nexit 1\n")
    for name in ("include/cuda_runtime.h", "include/cuda.h", "lib64/libcudart.so", "lib64/libcudart_static.a"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("#define CUDA_VERSION 13000\n" if name.endswith("cuda.h") else "", encoding="utf-8")
    return root


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A folder that looks like nvidia/cu13 of the wheel nvidia-cublas, beside headers of other wheels."""
    root = tmp_path / "site" / "nvidia" / "cu13"
    for name in ("include/cublas_v2.h", "include/cublasLt.h", "include/cuda_fp16.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("", encoding="utf-8")
    for name in ("lib/libcublas.so.13", "lib/libcublasLt.so.13"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("", encoding="utf-8")
    return root


def environment(toolkit: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{toolkit / 'bin'}:{os.environ['PATH']}", "CUDACXX": ""}


def configure(folder: Path, toolkit: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Configure a project that only prepares CUDA."""
    source = folder / "probe"
    source.mkdir(exist_ok=True)
    (source / "CMakeLists.txt").write_text(PROJECT.format(native=NATIVE), encoding="utf-8")
    command = ["cmake", "-S", str(source), "-B", str(folder / "out"), f"-DCUDAToolkit_ROOT={toolkit}", *arguments]
    return subprocess.run(command, env=environment(toolkit), capture_output=True, text=True, check=False)


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stdout + result.stderr).split())


def test_cublas_of_the_wheel_is_shown_to_the_compiler_and_nothing_else_of_it(tmp_path, toolkit, wheel):
    arguments = (f"-DPOWER_CUBLAS_ROOT={wheel}", "-DCMAKE_CUDA_ARCHITECTURES=90")
    for result in (configure(tmp_path, toolkit, *arguments), configure(tmp_path, toolkit)):  # a second run keeps it
        assert result.returncode == 0, result.stderr
        assert "cuBLAS from the wheel" in one_line(result)
    view = tmp_path / "out" / "cublas"
    assert sorted(path.name for path in (view / "include").iterdir()) == ["cublasLt.h", "cublas_v2.h"]
    assert {path.name: path.resolve() for path in (view / "lib").iterdir()} == {
        "libcublas.so": wheel / "lib" / "libcublas.so.13",
        "libcublasLt.so": wheel / "lib" / "libcublasLt.so.13",
    }


def test_a_toolkit_with_cublas_needs_no_wheel(tmp_path, toolkit):
    (toolkit / "include" / "cublas_v2.h").write_text("", encoding="utf-8")
    for name in ("libcublas.so", "libcublasLt.so"):
        (toolkit / "lib64" / name).write_text("", encoding="utf-8")
    result = configure(tmp_path, toolkit, "-DCMAKE_CUDA_ARCHITECTURES=90")
    assert result.returncode == 0, result.stderr
    assert "cuBLAS from the toolkit" in one_line(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-DCMAKE_CUDA_ARCHITECTURES=90"], r"has no cuBLAS. Install its package, or `pip install nvidia-cublas`"),
        (["-DPOWER_CUBLAS_ROOT=/absent"], "which holds no header of cuBLAS"),
    ],
)
def test_missing_cublas_ends_the_configuration_with_both_ways_to_get_it(tmp_path, toolkit, arguments, message):
    result = configure(tmp_path, toolkit, *arguments)
    assert result.returncode != 0
    assert message in one_line(result)


def test_another_major_version_of_the_wheel_is_refused(tmp_path, toolkit, wheel):
    for library in (wheel / "lib").iterdir():
        library.rename(library.with_suffix(".12"))
    result = configure(tmp_path, toolkit, f"-DPOWER_CUBLAS_ROOT={wheel}")
    assert result.returncode != 0
    assert "holds no libcublas for CUDA 13" in one_line(result)


def test_without_a_gpu_the_architectures_must_be_named(tmp_path, toolkit, wheel):
    result = configure(tmp_path, toolkit, f"-DPOWER_CUBLAS_ROOT={wheel}")
    assert result.returncode != 0
    assert "no GPU was found here to compile for" in one_line(result)
    assert "-DCMAKE_CUDA_ARCHITECTURES=90" in one_line(result)
    portable = configure(tmp_path, toolkit, f"-DPOWER_CUBLAS_ROOT={wheel}", "-DGGML_NATIVE=OFF")
    assert portable.returncode == 0, portable.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], False),
        (["-DGGML_CUDA=on"], True),
        (["-DGGML_CUDA:BOOL=1"], True),
        (["-DGGML_CUDA=on", "-DGGML_CUDA=off"], False),
        (["-DGGML_CUDA_GRAPHS=on"], False),
    ],
)
def test_cuda_is_wanted_when_the_last_switch_says_so(arguments, wanted):
    assert wants_cuda(arguments) is wanted


def test_cublas_becomes_a_build_requirement_only_where_it_is_missing(toolkit):
    env = environment(toolkit)
    assert cuda_requirements(env, []) == []
    assert cuda_requirements(env, ["-DGGML_CUDA=on"]) == ["nvidia-cublas>=13,<14"]
    (toolkit / "include" / "cublas_v2.h").write_text("", encoding="utf-8")
    assert cuda_requirements(env, ["-DGGML_CUDA=on"]) == []


def test_a_missing_toolkit_adds_no_requirement(tmp_path):
    assert cuda_requirements({"PATH": str(tmp_path)}, ["-DGGML_CUDA=on"]) == []


def test_the_wheel_is_found_where_python_imports_it_from(monkeypatch, wheel):
    spec = importlib.machinery.ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(wheel.parent)]
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(cuda.importlib.metadata, "version", lambda name: "13.1.2")
    assert cuda.find_cublas_wheel(13) == CublasWheel(root=wheel, version="13.1.2")
    assert cuda.find_cublas_wheel(12) is None


def test_the_key_knows_the_compiler_and_the_version_of_cublas(monkeypatch):
    found = {"toolkit": CudaToolkit(version="nvcc 13.0", major=13, has_cublas=False), "cublas": "13.1"}
    monkeypatch.setattr(cuda, "find_cuda_toolkit", lambda env, cmake_args: found["toolkit"])
    monkeypatch.setattr(
        cuda, "find_cublas_wheel", lambda major: CublasWheel(root=Path("/w"), version=str(found["cublas"]))
    )
    arguments = ["-DGGML_CUDA=on"]
    first = cuda_identity({}, arguments)
    found["cublas"] = "13.2"
    second = cuda_identity({}, arguments)
    found["toolkit"] = CudaToolkit(version="nvcc 13.1", major=13, has_cublas=False)
    assert len({first, second, cuda_identity({}, arguments)}) == 3
    assert cuda_identity({}, []) == ""
