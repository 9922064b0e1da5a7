"""Requantise a GGUF file with the library."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from power_core.errors import ArtifactNotFoundError, ConfigError
from power_native._loader import library


def quantize(path_in: Path, path_out: Path, type_name: str, *, threads: int = 0, pure: bool = False) -> None:
    """Write ``path_in`` to ``path_out`` with another weight type; the output appears whole or not at all.

    Args:
        path_in: A GGUF file.
        path_out: Written to a temporary name beside it, then renamed over it.
        type_name: A llama.cpp name such as ``Q8_0``, ``Q4_K_M``, ``F16``.
        threads: 0 lets the library choose.
        pure: Use the one type for every tensor. Without it the library picks other types for some tensors.

    Raises:
        ArtifactNotFoundError: ``path_in`` is not a regular file.
        ConfigError: ``path_out`` is ``path_in`` or stands in no folder.
        NativeCallError: the library refused; its text says why.
    """
    if not path_in.is_file():
        raise ArtifactNotFoundError(f"the model {str(path_in)!r} is not a regular file", path=str(path_in))
    if not path_out.parent.is_dir() or (path_out.exists() and path_out.samefile(path_in)):
        raise ConfigError(
            f"`path_out` is {str(path_out)!r}, expected a new file in an existing folder",
            field="path_out",
            value=str(path_out),
        )
    owner = library()
    descriptor, name = tempfile.mkstemp(prefix=f".{path_out.name}.", suffix=".part", dir=path_out.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        owner.call("power_quantize", os.fsencode(path_in), os.fsencode(temporary), type_name.encode(), threads, pure)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path_out)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
