"""Where the library's file is: the variable first, then the package's folders, then the installed distribution."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from power_core.errors import LibraryNotFoundError

VARIABLE = "POWER_NATIVE_LIBRARY"
DISTRIBUTION = "power-native"
HOW_TO_BUILD = (
    f"install or build the library with `uv sync` or `pip install {DISTRIBUTION}` (needs a C++ compiler), "
    f"or set {VARIABLE} to the library's file"
)


def library_name(platform: str = sys.platform) -> str:
    """File name of the library on a platform, named as ``sys.platform`` names it."""
    if platform == "win32":
        return "power_native.dll"
    return "libpower_native.dylib" if platform == "darwin" else "libpower_native.so"


def find_library(folders: Sequence[str]) -> Path:
    """Return the library's file.

    Args:
        folders: ``power_native.__path__``.

    Raises:
        LibraryNotFoundError: the variable names something that is no file (nothing else is tried then), or no
            candidate exists; the message lists every path that was tried.
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named)
        if path.is_file():
            return path.resolve()
        what = "is a folder" if path.is_dir() else "does not exist"
        raise LibraryNotFoundError(
            f"{VARIABLE} is {named!r}, which {what}; expected the library's file",
            library=named,
            hint=f"correct or unset {VARIABLE}",
        )
    tried: list[Path] = []
    for candidate in _candidates(folders):
        if candidate.is_file():
            return candidate.resolve()
        tried.append(candidate)
    listing = "".join(f"\n  {path}" for path in tried)
    raise LibraryNotFoundError(
        f"the native library was not found; {VARIABLE} is not set; tried:{listing}", hint=HOW_TO_BUILD
    )


def _candidates(folders: Sequence[str]) -> Iterator[Path]:
    name = library_name()
    for folder in folders:
        yield Path(folder) / name
    try:
        recorded = importlib.metadata.files(DISTRIBUTION) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for file in recorded:
        if file.name == name:
            yield Path(str(file.locate()))
