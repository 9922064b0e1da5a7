"""Memory of this process as the system counts it; everything is None where it cannot be read."""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
RESET_PEAK = "5"


def reset_peak() -> bool:
    """Let the peak count from now; False where the system does not allow it, and the peak is that of the process."""
    try:
        CLEAR.write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Peak resident memory since the last reset, shared pages of mapped files included."""
    return _status_bytes("VmHWM")


def private_bytes() -> int | None:
    """Resident memory that belongs to no file: buffers, caches of tokens, weights that were copied."""
    return _status_bytes("RssAnon")


def _status_bytes(name: str) -> int | None:
    try:
        lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None
