"""What ``power doctor`` prints about the library: the file, how it was built, the devices it can use."""

from __future__ import annotations

import ctypes
from typing import Literal, TypeAlias

import attrs

from power_native import _raw
from power_native._loader import LibraryInfo, library

DeviceKind: TypeAlias = Literal["cpu", "gpu", "integrated-gpu", "accelerator"]
_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu", "integrated-gpu", "accelerator")


@attrs.frozen(kw_only=True)
class DeviceInfo:
    """One device of the library; memory in bytes as its driver reports it."""

    name: str
    description: str
    kind: DeviceKind
    memory_free_bytes: int
    memory_total_bytes: int


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
        memory_free_bytes=raw.memory_free_bytes,
        memory_total_bytes=raw.memory_total_bytes,
    )
