"""An environment that has wheels and nothing else, for the checks that stand outside the workspace."""

import os
import shutil
import sys
from pathlib import Path

from live_command import Done, run_live

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ("power-core", "power-native", "power-contract-tests")


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
        return run_live(command, self.work, self.environment)

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
