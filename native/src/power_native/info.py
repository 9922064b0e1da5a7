"""What ``power doctor`` prints about the library: the file, how it was built, the devices it can use."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from power_native import _raw
from power_native._loader import LibraryInfo, library

DeviceKind: TypeAlias = Literal["cpu", "gpu", "integrated-gpu", "accelerator"]
_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu", "integrated-gpu", "accelerator")


@attrs.frozen(kw_only=True)
class DeviceInfo:
    """One device of the library; memory in bytes as its driver reports it.

    ``compute_capability`` is CUDA's, None on other devices; ``bus_id`` is empty where the backend does not tell.
    """

    name: str
    description: str
    kind: DeviceKind
    compute_capability: tuple[int, int] | None
    bus_id: str
    memory_free_bytes: int
    memory_total_bytes: int


@attrs.frozen(kw_only=True)
class CudaInfo:
    """What a library that was compiled with CUDA found on this machine.

    Attributes:
        compiled_version: Toolkit that compiled the library, as ``13.0``.
        runtime_version: Runtime library in use.
        driver_version: Newest version that the driver supports, None without a driver.
        device_count: CUDA devices that can be used.
        error: Why the search for devices failed, in CUDA's words; empty when it did not.
    """

    compiled_version: str
    runtime_version: str
    driver_version: str | None
    device_count: int
    error: str


def library_info() -> LibraryInfo:
    """Open the library, if it is not open yet, and return its facts.

    Raises:
        LibraryNotFoundError: there is no library, or it cannot be opened.
        AbiMismatchError: it belongs to another version of this package.
        NativeError: it was compiled for another CPU.
    """
    return library().info


def devices() -> tuple[DeviceInfo, ...]:
    """The devices that the library can compute on."""
    owner = library()
    return tuple(_device(index) for index in range(owner.functions.power_device_count()))


def build_key() -> str:
    """Text that changes with whatever decides the bits of a logit besides model and settings.

    The library's file, the devices it sees, and the switches that its kernels read from the environment.
    """
    switches = {name: value for name, value in os.environ.items() if name.startswith("GGML_")}
    seen = [f"{device.name} {device.description}" for device in devices()]
    return json.dumps([_file_digest(library_info().path), seen, switches], sort_keys=True)


@functools.cache
def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cuda_info() -> CudaInfo | None:
    """What CUDA says about this machine, None when the library was compiled without it."""
    raw = _raw.power_cuda_info(size=ctypes.sizeof(_raw.power_cuda_info))
    library().call("power_cuda_info_get", ctypes.byref(raw))
    if raw.compiled_version == 0:
        return None
    return CudaInfo(
        compiled_version=_cuda_version(raw.compiled_version),
        runtime_version=_cuda_version(raw.runtime_version),
        driver_version=_cuda_version(raw.driver_version) if raw.driver_version else None,
        device_count=raw.device_count,
        error=f"{raw.error_name.decode()}: {raw.error_text.decode()}" if raw.error_code else "",
    )


def driver_text() -> str:
    """Release of NVIDIA's kernel driver as Linux shows it, such as ``580.159.03``; empty where it shows none."""
    try:
        text = _DRIVER_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    release = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", text)
    return release[0] if release else ""


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def exposes_layer_inputs(architecture: str) -> bool:
    """True when targets of this ``general.architecture`` expose the inputs of their layers.

    Raises:
        NativeError: as ``library_info``.
    """
    return bool(library().functions.power_exposes_layer_inputs(architecture.encode()))


def device_memory_bytes() -> int:
    """Free memory of all devices other than the CPU."""
    return sum(device.memory_free_bytes for device in devices() if device.kind not in ("cpu", "integrated-gpu"))


def log_tail(capacity_bytes: int = 4096) -> str:
    """The last bytes of the library's own log."""
    buffer, written = ctypes.create_string_buffer(capacity_bytes), ctypes.c_uint32()
    library().call("power_log_tail", buffer, capacity_bytes, ctypes.byref(written))
    return buffer.raw[: written.value].decode("utf-8", "replace")


def _device(index: int) -> DeviceInfo:
    raw = _raw.power_device_info(size=ctypes.sizeof(_raw.power_device_info))
    library().call("power_device_get", index, ctypes.byref(raw))
    return DeviceInfo(
        name=raw.name.decode("utf-8", "replace"),
        description=raw.description.decode("utf-8", "replace"),
        kind=_KINDS[raw.type],
        compute_capability=(raw.compute_major, raw.compute_minor) if raw.compute_major else None,
        bus_id=raw.bus_id.decode("utf-8", "replace"),
        memory_free_bytes=raw.memory_free_bytes,
        memory_total_bytes=raw.memory_total_bytes,
    )
