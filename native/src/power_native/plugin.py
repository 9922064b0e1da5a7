"""What power-native registers: the llama.cpp backend and its health checks. Nothing is loaded before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from power_core.plugins import hookimpl
from power_core.plugins.types import BackendSpec, HealthCheck, HealthResult, LoadProgress, PluginInfo

if TYPE_CHECKING:
    from power_core.target import ModelSettings, TargetModel


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Name the plugin and the API it was written for."""
    return PluginInfo(name="native", api=(1, 0), summary="Runs GGUF targets with a pinned llama.cpp.")


@hookimpl
def power_backends() -> list[BackendSpec]:
    """Register the backend."""
    return [BackendSpec(name="llama.cpp", summary="llama.cpp, linked into libpower_native", open_model=_open_model)]


@hookimpl
def power_health_checks() -> list[HealthCheck]:
    """Register the checks of ``power doctor``."""
    return [
        HealthCheck(name="native library", run=_check_library),
        HealthCheck(name="native devices", run=_check_devices),
    ]


def _open_model(settings: ModelSettings, progress: LoadProgress | None) -> TargetModel:
    from power_native.model import NativeModel

    return NativeModel.open(settings, progress)


def _check_library() -> list[HealthResult]:
    from power_core.errors import PowerError
    from power_native.info import library_info

    try:
        info = library_info()
    except PowerError as error:
        return [HealthResult(name="library", status="error", detail=f"[{error.code}] {error}", hint=error.hint)]
    facts = {
        "library": str(info.path),
        "ABI": str(info.abi_version),
        "llama.cpp": f"{info.llama_version}, commit {info.llama_commit}",
        "compiler": info.compiler,
        "CMake arguments": info.cmake_args or "(none)",
        "GPU offload": "compiled in" if info.gpu_offload else "not compiled in",
        "CPU features": ", ".join(info.cpu_features),
    }
    return [HealthResult(name=name, status="ok", detail=detail) for name, detail in facts.items()]


def _check_devices() -> list[HealthResult]:
    from power_core.errors import PowerError
    from power_native.info import devices

    try:
        found = devices()
    except PowerError as error:
        return [HealthResult(name="devices", status="error", detail=f"[{error.code}] {error}", hint=error.hint)]
    return [
        HealthResult(
            name=device.name,
            status="ok",
            detail=f"{device.kind}, {device.description}, {device.memory_free_bytes:,} of "
            f"{device.memory_total_bytes:,} bytes free",
        )
        for device in found
    ]
