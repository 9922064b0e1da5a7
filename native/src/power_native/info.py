"""What ``power doctor`` prints about the library: the file, how it was built, the devices it can use."""

from __future__ import annotations

import ctypes
from typing import Literal, TypeAlias

import attrs

from power_native import _raw
from power_native._loader import LibraryInfo, library
from power_native._status import error_for, new_error

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
    """Open the library, if it is not open yet, and return its facts; raises as ``load_library``."""
    return library().info


def devices() -> tuple[DeviceInfo, ...]:
    """The devices that the library can compute on."""
    owner = library()
    return tuple(_device(index) for index in range(owner.functions.power_device_count()))


def device_memory_bytes() -> int:
    """Free memory of all devices other than the CPU."""
    return sum(device.memory_free_bytes for device in devices() if device.kind not in ("cpu", "integrated-gpu"))


def log_tail(capacity_bytes: int = 4096) -> str:
    """The last bytes of the library's own log."""
    owner = library()
    buffer, written, error = ctypes.create_string_buffer(capacity_bytes), ctypes.c_uint32(), new_error()
    status = owner.functions.power_log_tail(buffer, capacity_bytes, ctypes.byref(written), ctypes.byref(error))
    if status:
        raise error_for("power_log_tail", status, error, owner.path)
    return buffer.raw[: written.value].decode("utf-8", "replace")


def _device(index: int) -> DeviceInfo:
    owner = library()
    raw, error = _raw.power_device_info(size=ctypes.sizeof(_raw.power_device_info)), new_error()
    status = owner.functions.power_device_get(index, ctypes.byref(raw), ctypes.byref(error))
    if status:
        raise error_for("power_device_get", status, error, owner.path)
    return DeviceInfo(
        name=raw.name.decode("utf-8", "replace"),
        description=raw.description.decode("utf-8", "replace"),
        kind=_KINDS[raw.type],
        memory_free_bytes=raw.memory_free_bytes,
        memory_total_bytes=raw.memory_total_bytes,
    )
