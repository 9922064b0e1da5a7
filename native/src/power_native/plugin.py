"""What power-native registers: the llama.cpp backend and its health checks. Nothing is loaded before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from power_core.plugins import hookimpl
from power_core.plugins.types import BackendSpec, HealthCheck, HealthResult, LoadProgress, PluginInfo

if TYPE_CHECKING:
    from power_core.target import ModelSettings, TargetModel
    from power_native.info import DeviceInfo


@hookimpl
def power_plugin_info() -> PluginInfo:
    """Name the plugin and the API it was written for."""
    return PluginInfo(name="native", api=(1, 0), summary="Runs GGUF targets with a pinned llama.cpp.")


@hookimpl
def power_backends() -> list[BackendSpec]:
    """Register the backend."""
    return [
        BackendSpec(
            name="llama.cpp",
            summary="llama.cpp, linked into libpower_native",
            open_model=_open_model,
            build_key=_build_key,
        )
    ]


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


def _build_key() -> str:
    from power_native.info import build_key

    return build_key()


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
        "GPU offload": "a device was found" if info.gpu_offload else "no device found",
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
    shown = [HealthResult(name=device.name, status="ok", detail=_describe(device)) for device in found]
    return [*shown, *_check_cuda()]


def _describe(device: DeviceInfo) -> str:
    facts = [device.kind, device.description]
    if device.compute_capability is not None:
        facts.append("compute capability {}.{}".format(*device.compute_capability))
    if device.bus_id:
        facts.append(f"bus {device.bus_id}")
    facts.append(f"{device.memory_free_bytes:,} of {device.memory_total_bytes:,} bytes free")
    return ", ".join(facts)


def _check_cuda() -> list[HealthResult]:
    """Say which CUDA runs, or what is missing for it; a CPU build has nothing to say."""
    from power_native.info import cuda_info, driver_text

    cuda = cuda_info()
    if cuda is None:
        return []
    versions = f"toolkit {cuda.compiled_version}, runtime {cuda.runtime_version}"
    if cuda.driver_version is None:
        return [
            HealthResult(
                name="CUDA",
                status="warning",
                detail=f"{versions}, no driver: the library runs on the CPU. {cuda.error}".rstrip(),
                hint="install NVIDIA's driver; in a container start it with the GPU passed through",
            )
        ]
    detail = f"{versions}, driver {driver_text() or 'of unknown release'} (CUDA {cuda.driver_version})"
    if cuda.device_count:
        streams = "priority of its streams: unsupported by the pinned llama.cpp"
        return [HealthResult(name="CUDA", status="ok", detail=f"{detail}, {cuda.device_count} device(s); {streams}")]
    return [
        HealthResult(
            name="CUDA",
            status="warning",
            detail=f"{detail}, no usable device: the library runs on the CPU. {cuda.error}".rstrip(),
            hint="compare `nvidia-smi`; CUDA_VISIBLE_DEVICES may hide devices, and an old driver refuses a new runtime",
        )
    ]
