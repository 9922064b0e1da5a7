"""Fixtures that several test files share."""

import sys
import sysconfig

import pytest
from cli_fakes import run_power
from cli_inputs import Run


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An import path with the standard library and an empty folder for distributions."""
    before = set(sys.modules)
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED")]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in standard if path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("plugin_") or name == "power_fake_plugin":
            del sys.modules[name]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: run_power(capsys, *arguments)
