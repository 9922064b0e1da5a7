"""An environment that has wheels and nothing else, for the checks that stand outside the workspace."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ("power-core", "power-native", "power-contract-tests")


class Done(NamedTuple):
    """A finished command."""

    status: int
    output: str


class WheelEnvironment:
    """An empty virtual environment in a folder, and a working folder beside it.

    Args:
        folder: Where everything is made.
        work: Name of the working folder.
    """

    def __init__(self, folder: Path, work: str) -> None:
        self.wheels = folder / "wheels"
        self.work = folder / work
        self.work.mkdir()
        binaries = folder / "venv/bin"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "POWER_"))}
        self.environment = kept | {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(binaries.parent),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def run(self, command: str) -> Done:
        """Run a command in the working folder, its output shown live."""
        print(f"\n$ {command}", flush=True)
        with subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.work,
            env=self.environment,
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

    def must(self, command: str) -> str:
        """Run a command that has to succeed; return its output."""
        done = self.run(command)
        if done.status != 0:
            raise SystemExit(f"{Path(sys.argv[0]).stem}: status {done.status} from: {command}")
        return done.output

    def prepare(self, built: Path | None, *plugins: Path) -> None:
        """Install the wheels of core, library and kit, and those of plugins outside the workspace.

        Args:
            built: Folder with the first three; None builds them.
            plugins: Projects to build and install.
        """
        self.wheels.mkdir()
        for name in WHEELS:
            if built is None:
                self.must(f"uv build -q --wheel --project {ROOT} --package {name} --out-dir {self.wheels} {ROOT}")
            else:
                (wheel,) = built.resolve().glob(f"{name.replace('-', '_')}-*.whl")
                shutil.copy(wheel, self.wheels)
        for plugin in plugins:
            self.must(f"uv build -q --wheel --no-config --out-dir {self.wheels} {plugin}")
        self.must(f"{sys.executable} -m venv {self.environment['VIRTUAL_ENV']}")
        self.must(f"pip install --quiet {self.wheels}/*.whl")
