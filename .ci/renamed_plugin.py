"""A renamed copy of power-dspark, outside the workspace: it passes the kit as the original does, and as quickly.

Nothing may work for our own plugins alone: the library and the core know them by what they register, never by name.
Both durations are printed. ``.ci/renamed_plugin.py FOLDER`` takes the wheels of core, library and kit from a folder.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from wheel_environment import ROOT, WheelEnvironment

ORIGINAL = "power-dspark"
COPY = "power-mirror"


def renamed_copy(folder: Path) -> Path:
    """Write a copy of the plugin in which its distribution and its package have another name."""
    project = folder / COPY
    shutil.copytree(ROOT / "plugins" / ORIGINAL, project, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    names = ((ORIGINAL, COPY), (ORIGINAL.replace("-", "_"), COPY.replace("-", "_")))
    for file in (path for pattern in ("*.py", "*.toml") for path in project.rglob(pattern)):
        text = file.read_text(encoding="utf-8")
        for old, new in names:
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
    (project / "src" / names[1][0]).rename(project / "src" / names[1][1])
    return project


def kit_seconds(environment: WheelEnvironment, name: str) -> float:
    """Run the kit; return how long it took."""
    report = environment.work / f"{name}.json"
    environment.must(f"power-contract run {name} --profile ci --report {report}")
    return float(json.loads(report.read_text(encoding="utf-8"))["seconds"])


def main(arguments: list[str]) -> None:
    """Run the kit on the copy, then on the original in its place."""
    with tempfile.TemporaryDirectory(prefix="power-renamed-") as folder:
        environment = WheelEnvironment(Path(folder), "work")
        environment.prepare(Path(arguments[0]) if arguments else None, renamed_copy(Path(folder)))
        copy = kit_seconds(environment, COPY)
        environment.must(f"pip uninstall --quiet --yes {COPY}")
        environment.must(f"uv build -q --wheel --no-config --out-dir {environment.work} {ROOT / 'plugins' / ORIGINAL}")
        environment.must("pip install --quiet *.whl")
        original = kit_seconds(environment, ORIGINAL)
    print(f"renamed plugin: {COPY} {copy:.0f} s, {ORIGINAL} {original:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
