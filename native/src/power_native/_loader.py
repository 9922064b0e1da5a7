"""Open the native library once and refuse it unless it speaks exactly this package's ABI.

Order: find, open, ABI number, layout of every structure, every symbol, build info, CPU features. Nothing is loaded when
``power_native`` is imported; the first use loads. A failed attempt is not remembered, so that it can be repaired.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import attrs

import power_native
from power_core.errors import AbiMismatchError, LibraryNotFoundError, NativeError
from power_native import _cpu, _raw
from power_native._locate import HOW_TO_BUILD, VARIABLE, find_library
from power_native._status import call, error_for, new_error

_REBUILD = (
    f"rebuild the library so that it matches this package ({HOW_TO_BUILD}); a set {VARIABLE} may name an old file"
)


@attrs.frozen(kw_only=True)
class LibraryInfo:
    """Facts of the opened library, as it was compiled."""

    path: Path
    abi_version: int
    gpu_offload: bool
    llama_commit: str
    llama_version: str
    content_key: str
    compiler: str
    cmake_args: str
    cpu_features: tuple[str, ...]


class Functions:
    """The library's functions, each bound to its C signature at its first use."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        self._handle = handle

    def __getattr__(self, symbol: str) -> Any:
        function = _raw.bind(self._handle, symbol)
        setattr(self, symbol, function)
        return function


@attrs.frozen(kw_only=True, eq=False)
class Library:
    """An opened library that passed the handshake."""

    path: Path
    functions: Any
    info: LibraryInfo

    def call(self, symbol: str, *arguments: object) -> None:
        """Call ``symbol(*arguments, err)``; raise the typed error of a failure."""
        call(self.functions, self.path, symbol, *arguments)

    def open_handle(self, symbol: str, *arguments: object) -> ctypes.c_void_p:
        """Call ``symbol(*arguments, out, err)`` and return the handle it opened; raise the typed error of a failure."""
        handle = ctypes.c_void_p()
        self.call(symbol, *arguments, ctypes.byref(handle))
        return handle


_lock = threading.Lock()
_opened: list[Library] = []


def library() -> Library:
    """Return the library, opening it at the first call. Thread-safe.

    Raises:
        LibraryNotFoundError: no file, or the system's loader refuses it (code ``native.cannot_open``).
        AbiMismatchError: another ABI number, another structure layout, or a missing symbol.
        NativeError: the library was compiled for another CPU (code ``native.cpu``).
    """
    if _opened:
        return _opened[0]
    with _lock:
        if not _opened:
            _opened.append(open_library(find_library(list(power_native.__path__))))
        return _opened[0]


def open_library(path: Path) -> Library:
    """Open a file and shake hands; see ``library``."""
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryNotFoundError(
            f"the native library {str(path)!r} cannot be opened: {error}",
            library=str(path),
            detail=str(error),
            hint=f"it is damaged, built for another system, or a library it needs is missing; {HOW_TO_BUILD}",
            code="native.cannot_open",
        ) from error
    functions = Functions(handle)
    _check_version(handle, functions, path)
    _check_layouts(handle, functions, path)
    _check_symbols(handle, path, sorted(_raw.FUNCTIONS))
    info = _read_info(functions, path)
    _check_cpu(info)
    functions.power_log_capture(1)
    return Library(path=path, functions=functions, info=info)


def _check_symbols(handle: ctypes.CDLL, path: Path, symbols: list[str]) -> None:
    missing = [symbol for symbol in symbols if not hasattr(handle, symbol)]
    if missing:
        raise AbiMismatchError(
            f"the native library {str(path)!r} lacks {', '.join(f'`{symbol}`' for symbol in missing)}",
            symbol=missing[0],
            library=str(path),
            hint=_REBUILD,
            code="native.symbol",
        )


def _check_version(handle: ctypes.CDLL, functions: Any, path: Path) -> None:
    _check_symbols(handle, path, ["power_abi_version", "power_struct_layout"])
    found = functions.power_abi_version()
    if found != _raw.POWER_ABI_VERSION:
        raise AbiMismatchError(
            f"the native library {str(path)!r} has ABI {found}, this package needs ABI {_raw.POWER_ABI_VERSION}",
            symbol="power_abi_version",
            library=str(path),
            hint=_REBUILD,
        )


def _check_layouts(handle: ctypes.CDLL, functions: Any, path: Path) -> None:
    differences = [line for struct in _raw.STRUCTS for line in layout_differences(functions, struct, path)]
    if differences:
        listing = "".join(f"\n  {line}" for line in differences)
        raise AbiMismatchError(
            f"the native library {str(path)!r} lays out its structures differently:{listing}",
            symbol="power_struct_layout",
            library=str(path),
            hint=_REBUILD,
        )


def layout_differences(functions: Any, struct: type[ctypes.Structure], path: Path) -> list[str]:
    """Compare a structure's size and every member's offset with the library's; one line per difference."""
    name = struct.__name__
    members = [field[0] for field in struct._fields_]
    capacity = len(members) + 32
    size, count, offsets = ctypes.c_uint32(), ctypes.c_uint32(), (ctypes.c_uint32 * capacity)()
    error = new_error()
    status = functions.power_struct_layout(
        name.encode(), ctypes.byref(size), offsets, capacity, ctypes.byref(count), ctypes.byref(error)
    )
    if status:
        return [f"{name}: {error_for('power_struct_layout', status, error, path)}"]
    lines = []
    if size.value != ctypes.sizeof(struct):
        lines.append(f"{name}: {size.value} bytes in the library, {ctypes.sizeof(struct)} in Python")
    if count.value != len(members):
        lines.append(f"{name}: {count.value} members in the library, {len(members)} in Python")
    for member, found in zip(members, offsets[: count.value], strict=False):
        expected = getattr(struct, member).offset
        if found != expected:
            lines.append(f"{name}.{member}: offset {found} in the library, {expected} in Python")
    return lines


def _read_info(functions: Any, path: Path) -> LibraryInfo:
    raw = _raw.power_build_info(size=ctypes.sizeof(_raw.power_build_info))
    call(functions, path, "power_build_info_get", ctypes.byref(raw))
    return LibraryInfo(
        path=path,
        abi_version=raw.abi_version,
        gpu_offload=bool(raw.gpu_offload),
        llama_commit=raw.llama_commit.decode(),
        llama_version=raw.llama_version.decode(),
        content_key=raw.content_key.decode(),
        compiler=raw.compiler.decode(),
        cmake_args=raw.cmake_args.decode(),
        cpu_features=_cpu.compiled_features(raw.cpu_features.decode()),
    )


def _check_cpu(info: LibraryInfo) -> None:
    missing = _cpu.missing_features(info.cpu_features, _cpu.cpu_flags())
    if missing:
        raise NativeError(
            f"the native library {str(info.path)!r} was compiled for {', '.join(missing)}, which this CPU lacks",
            library=str(info.path),
            hint=f"build it on this machine: {HOW_TO_BUILD}",
            code="native.cpu",
        )
