"""What power-native registers."""

import pluggy
import pytest

from power_core.plugins.types import BackendSpec, HealthCheck
from power_core.target import ModelSettings
from power_native import _loader, _locate, plugin


def test_handshake_and_backend():
    assert plugin.power_plugin_info().api == (1, 0)
    (backend,) = plugin.power_backends()
    assert isinstance(backend, BackendSpec)
    assert backend.name == "llama.cpp"


def test_hooks_carry_the_marker():
    manager = pluggy.PluginManager("power")
    for name in ("power_plugin_info", "power_backends", "power_health_checks"):
        assert manager.parse_hookimpl_opts(plugin, name) is not None


def test_health_checks_report_a_missing_library_and_never_raise(monkeypatch, tmp_path):
    monkeypatch.setattr(_loader, "_opened", [])
    monkeypatch.setenv(_locate.VARIABLE, str(tmp_path / "absent.so"))
    for check in plugin.power_health_checks():
        assert isinstance(check, HealthCheck)
        (result,) = check.run()
        assert result.status == "error"
        assert "[native.not_found]" in result.detail
        assert result.hint


@pytest.mark.native
def test_health_checks_of_the_real_library_are_good():
    results = [result for check in plugin.power_health_checks() for result in check.run()]
    # A CUDA build on a machine without a driver says so, as a warning.
    assert {result.status for result in results if result.name != "CUDA"} == {"ok"}
    names = {result.name for result in results}
    assert {"library", "ABI", "llama.cpp", "CPU features", "CPU"} <= names


@pytest.mark.native
def test_backend_opens_a_model(model_paths):
    (backend,) = plugin.power_backends()
    seen = []
    model = backend.open_model(ModelSettings(path=model_paths["attention"]), seen.append)
    assert model.info.architecture == "qwen3"
    assert seen[-1] == 1.0
    model.close()
