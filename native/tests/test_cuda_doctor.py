"""What `power doctor` says about CUDA: versions where it runs, what is missing where it does not."""

import attrs
import pytest

from power_native import info, plugin
from power_native.info import CudaInfo, DeviceInfo

RUNNING = CudaInfo(compiled_version="13.0", runtime_version="13.1", driver_version="13.0", device_count=2, error="")
NO_DRIVER = attrs.evolve(
    RUNNING, driver_version=None, device_count=0, error="cudaErrorInsufficientDriver: the driver is insufficient"
)
NO_DEVICE = attrs.evolve(RUNNING, device_count=0, error="cudaErrorNoDevice: no CUDA-capable device is detected")


@pytest.fixture
def check(monkeypatch):
    """Return the check's results when CUDA says ``found``."""

    def run(found):
        monkeypatch.setattr(info, "cuda_info", lambda: found)
        monkeypatch.setattr(info, "driver_text", lambda: "580.159.03")
        return plugin._check_cuda()

    return run


def test_a_library_without_cuda_has_nothing_to_say(check):
    assert check(None) == []


def test_versions_of_toolkit_runtime_and_driver_are_shown(check):
    (result,) = check(RUNNING)
    assert result.status == "ok"
    assert result.detail.startswith("toolkit 13.0, runtime 13.1, driver 580.159.03 (CUDA 13.0), 2 device(s)")
    assert "unsupported by the pinned llama.cpp" in result.detail


@pytest.mark.parametrize(
    ("found", "missing", "next_step"),
    [(NO_DRIVER, "no driver", "install NVIDIA's driver"), (NO_DEVICE, "no usable device", "CUDA_VISIBLE_DEVICES")],
)
def test_what_is_missing_is_a_warning_with_the_next_step(check, found, missing, next_step):
    (result,) = check(found)
    assert result.status == "warning"
    assert missing in result.detail
    assert "runs on the CPU" in result.detail
    assert found.error in result.detail
    assert next_step in result.hint


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n", "580.159.03"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.86  Fri\n", "535.86"),
        ("something else\n", ""),
    ],
)
def test_the_drivers_release_is_read_from_linux(monkeypatch, tmp_path, text, release):
    path = tmp_path / "version"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(info, "_DRIVER_FILE", path)
    assert info.driver_text() == release


def test_without_the_kernel_module_there_is_no_release(monkeypatch, tmp_path):
    monkeypatch.setattr(info, "_DRIVER_FILE", tmp_path / "absent")
    assert info.driver_text() == ""


def test_a_gpu_is_described_with_compute_capability_bus_and_memory():
    device = DeviceInfo(
        name="CUDA0",
        description="NVIDIA H200",
        kind="gpu",
        compute_capability=(9, 0),
        bus_id="0000:1b:00.0",
        memory_free_bytes=1000,
        memory_total_bytes=2000,
    )
    assert plugin._describe(device) == (
        "gpu, NVIDIA H200, compute capability 9.0, bus 0000:1b:00.0, 1,000 of 2,000 bytes free"
    )


@pytest.mark.native
def test_the_library_answers_without_a_driver():
    found = info.cuda_info()
    assert found is None or found.device_count >= 0
