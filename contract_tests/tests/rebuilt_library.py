"""Relinks the native library with one changed source of its shim, in the build folder that it came from: seconds.

The folder stays as it is; the changed source, its object and the library lie elsewhere.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from power_core.cache_dir import cache_dir
from power_native._loader import library

OBJECTS = "CMakeFiles/power_native.dir/shim"


def build_folder() -> Path | None:
    """Return the folder of the build cache in which the loaded library was built, None when it is gone."""
    key = library().info.content_key
    for constants in sorted(cache_dir().glob("build/*/build/power_build_constants.h")):
        if f'"{key}"' in constants.read_text(encoding="utf-8"):
            return constants.parent
    return None


def rebuild(build: Path, source: str, old: str, new: str, folder: Path) -> Path:
    """Change a text that occurs once in a source of the shim, compile it, and return the library with it.

    Args:
        build: From ``build_folder``.
        source: File in shim/.
        old: Text that occurs once in it.
        new: What takes its place.
        folder: Receives what is made.
    """
    original = build.parent / "project" / "shim" / source
    text = original.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{source} has changed: plant the fault anew"
    changed, made = folder / source, folder / "libpower_native.so"
    changed.write_text(text.replace(old, new), encoding="utf-8")
    names = {str(original): str(changed), f"{OBJECTS}/{source}.o": str(folder / f"{source}.o")}
    commands = _output(["ninja", "-t", "commands", "libpower_native.so"], build).splitlines()
    compiling = next(command for command in commands if command.endswith(f"-c {original}"))
    for command in (compiling, commands[-1].replace("-o libpower_native.so", f"-o {made}")):
        for name, other in names.items():
            command = command.replace(name, other)
        _output(["sh", "-c", command], build)
    return made


def _output(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env={**os.environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
