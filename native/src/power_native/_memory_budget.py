"""Will it fit? Planned bytes against the memory that is available, before the library allocates anything.

Linux only: ``MemAvailable`` and the memory limits of the process's control groups (versions 1 and 2, every ancestor).
Where neither can be read, nothing is refused here and the library's own allocation failure is the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from power_core.errors import OutOfMemoryError

# Control groups of version 1 print a number near 2**63 for "no limit".
_NO_LIMIT_BYTES = 1 << 60
# The name of one part of a split model: the library finds the others by it.
_PART_NAME = re.compile(r"(.*)-\d{5}-of-(\d{5})\.gguf")


@attrs.frozen(kw_only=True)
class MemoryLimit:
    """One bound on what can still be allocated: ``available_bytes``, and what sets it."""

    available_bytes: int
    source: str


def available_memory(root: Path = Path("/")) -> MemoryLimit | None:
    """The tightest bound on memory that this process can still use.

    Args:
        root: Folder that stands for ``/``; tests give their own.

    Returns:
        The smallest of ``MemAvailable`` and each control group's limit minus its use (page cache counts as free, since
        it can be dropped), or None when nothing can be read.
    """
    limits = [*_system_limit(root), *_control_group_limits(root)]
    return min(limits, key=lambda limit: limit.available_bytes, default=None)


def model_file_bytes(path: Path) -> int:
    """Bytes of a model's file, or of all the parts that are there when its name is that of one part of a split model.

    Source of the naming: ``llama_split_path`` of llama.cpp, ``<prefix>-00001-of-00003.gguf``.
    """
    match = _PART_NAME.fullmatch(path.name)
    if match is None:
        return path.stat().st_size
    prefix, count = match[1], int(match[2])
    parts = (path.with_name(f"{prefix}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1))
    return sum(part.stat().st_size for part in parts if part.is_file())


def require_memory(
    planned_bytes: int, what: str, *, hint: str, limit: MemoryLimit | None, extra_bytes: int = 0
) -> None:
    """Raise ``OutOfMemoryError`` with the numbers when ``planned_bytes`` exceed what is available.

    Args:
        planned_bytes: What is about to be allocated or mapped.
        what: Subject of the message, e.g. ``model 'x.gguf'``.
        hint: What the user can do.
        limit: From ``available_memory``; None checks nothing.
        extra_bytes: Further memory that can take part of it, e.g. that of GPUs.
    """
    if limit is None or planned_bytes <= limit.available_bytes + extra_bytes:
        return
    device = f" and {extra_bytes:,} bytes on devices" if extra_bytes else ""
    raise OutOfMemoryError(
        f"{what} needs {planned_bytes:,} bytes, but {limit.available_bytes:,} bytes are available "
        f"({limit.source}){device}",
        hint=hint,
    )


def _system_limit(root: Path) -> Iterator[MemoryLimit]:
    for line in _read(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == "MemAvailable":
            yield MemoryLimit(available_bytes=int(value.split()[0]) * 1024, source="MemAvailable of the system")


def _control_group_limits(root: Path) -> Iterator[MemoryLimit]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, limit_name, used_name, cache_keys = (
                root / "sys/fs/cgroup",
                "memory.max",
                "memory.current",
                ("active_file", "inactive_file"),
            )
        elif "memory" in controllers.split(","):
            mount, limit_name, used_name, cache_keys = (
                root / "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                ("total_active_file", "total_inactive_file"),
            )
        else:
            continue
        for folder in _ancestors(mount, path):
            yield from _group_limit(folder, limit_name, used_name, cache_keys)


def _ancestors(mount: Path, path: str) -> Iterator[Path]:
    """The group's folder and its ancestors up to the mount point, each of which limits the process."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _group_limit(folder: Path, limit_name: str, used_name: str, cache_keys: tuple[str, ...]) -> Iterator[MemoryLimit]:
    limit_text, used_text = _read(folder / limit_name).strip(), _read(folder / used_name).strip()
    if not (limit_text.isdigit() and used_text.isdigit()) or int(limit_text) >= _NO_LIMIT_BYTES:
        return
    statistics = dict(line.split() for line in _read(folder / "memory.stat").splitlines() if len(line.split()) == 2)
    cache_bytes = sum(int(statistics.get(key, "0")) for key in cache_keys)
    available = max(0, int(limit_text) - max(0, int(used_text) - cache_bytes))
    yield MemoryLimit(available_bytes=available, source=f"memory limit {int(limit_text):,} bytes of a control group")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
