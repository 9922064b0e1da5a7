"""The library's facts and devices."""

import pytest

from power_core.target import ModelSettings
from power_native import NativeModel, devices, library_info, load_library
from power_native.info import device_memory_bytes, log_tail

pytestmark = pytest.mark.native


def test_library_info_is_complete():
    info = library_info()
    assert info is load_library().info
    assert info.path.is_file()
    assert len(info.llama_commit) >= 9
    assert info.cpu_features


def test_a_cpu_device_exists():
    found = devices()
    assert "cpu" in {device.kind for device in found}
    assert all(device.memory_total_bytes >= device.memory_free_bytes for device in found)
    if {device.kind for device in found} == {"cpu"}:
        assert device_memory_bytes() == 0


def test_loading_prints_nothing_and_logs(model_paths, capfd):
    NativeModel.open(ModelSettings(path=model_paths["attention"])).close()
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert "llama" in log_tail(1 << 16)
