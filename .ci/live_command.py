"""One shell command whose output is shown while it runs, and kept."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """A finished command."""

    status: int
    output: str


def run_live(command: str, folder: Path, environment: Mapping[str, str]) -> Done:
    """Run a command with bash in the folder, stopping at its first failure."""
    print(f"\n$ {command}", flush=True)
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return Done(process.returncode, "".join(lines))
