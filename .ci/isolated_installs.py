"""Build every member's wheel once, then install each alone into an empty environment and import all its modules.

One workspace environment hides imports that a member never declared; an empty one does not. A plugin brings the core
and the native library at most, never another plugin and never the contract kit.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MEMBERS = ("power_core", "native", "plugins/*", "contract_tests", "examples/zoo")
SCRIPTS = {"power-core": ("bin/power", "--help"), "power-contract-tests": ("bin/power-contract", "list")}
IMPORT_ALL = """
import importlib, sys
from importlib.metadata import distributions, files
installed = {distribution.name for distribution in distributions() if distribution.name.startswith("power-")}
strangers = installed - {sys.argv[1], "power-core", "power-native"}
if strangers:
    sys.exit(f"{sys.argv[1]} brings {strangers}")
sources = [file for file in files(sys.argv[1]) if file.suffix == ".py" and file.parts[0].isidentifier()]
names = sorted(".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in sources)
names = [name for name in names if not name.endswith(".__main__")]
names = [name for name in names if not name.endswith(".contract")]  # of a plugin; the contract kit alone imports it
for name in names:
    importlib.import_module(name)
print(f"{sys.argv[1]}: {len(names)} modules imported")
sys.exit(not names)
"""


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    """Run a command outside the source tree; its failure ends the check with the command shown."""
    words = [str(word) for word in command]
    print("$", " ".join(word if "\n" not in word else "<script>" for word in words), flush=True)
    done = subprocess.run(words, cwd=tempfile.gettempdir(), env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"isolated: status {done.returncode}")


def members() -> dict[str, Path]:
    """Return the folder of each member by distribution name."""
    projects = sorted(path for pattern in MEMBERS for path in ROOT.glob(f"{pattern}/pyproject.toml"))
    return {tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]: path.parent for path in projects}


def build_wheels(names: list[str]) -> None:
    """Fill ``dist`` with one wheel per member."""
    shutil.rmtree(DIST, ignore_errors=True)
    for name in names:
        run("uv", "build", "--wheel", "--project", ROOT, "--package", name, "--out-dir", DIST, ROOT)


def check_native_wheel() -> None:
    """The native wheel must hold the library and llama.cpp's licence."""
    (wheel,) = DIST.glob("power_native-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    libraries = [name for name in names if "libpower_native" in name]
    licences = [name for name in names if "llama" in name.lower() and "licen" in name.lower()]
    if not libraries or not licences:
        raise SystemExit(f"isolated: {wheel.name} lacks the library or llama.cpp's licence: {libraries=} {licences=}")


def check_zoo_wheel() -> None:
    """The zoo's wheel must hold its models, which most of the repository's ignore rules leave out."""
    (wheel,) = DIST.glob("power_zoo-*.whl")
    models = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".gguf")]
    if len(models) != 4:
        raise SystemExit(f"isolated: {wheel.name} holds the models {models}, expected the target and three drafts")


def fill_wheelhouse(folder: Path) -> None:
    """Make a pip of our own and download the third-party wheels that the members need, once for all of them."""
    run(sys.executable, "-m", "venv", folder / "pip")
    run(folder / "pip/bin/pip", "download", "-qq", "--dest", folder / "wheels", *sorted(DIST.glob("*.whl")))


def check_member(name: str, folder: Path) -> None:
    """Install one member from files alone and import every module it ships."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    python = folder / name / "bin/python"
    run(sys.executable, "-m", "venv", "--without-pip", folder / name)
    pip = (folder / "pip/bin/pip", "--python", python)
    links = ("--no-index", "--find-links", DIST, "--find-links", folder / "wheels")
    run(*pip, "install", "--quiet", "--no-compile", *links, name, environment=environment)
    run(python, "-I", "-W", "error", "-c", IMPORT_ALL, name, environment=environment)
    if name in SCRIPTS:
        script, *arguments = SCRIPTS[name]
        run(folder / name / script, *arguments, environment=environment)


def main() -> None:
    """Check every member, also after one has failed."""
    names = list(members())
    build_wheels(names)
    check_native_wheel()
    check_zoo_wheel()
    failed = []
    with tempfile.TemporaryDirectory(prefix="power-isolated-") as folder:
        fill_wheelhouse(Path(folder))
        for name in names:
            try:
                check_member(name, Path(folder))
            except SystemExit as error:
                print(error, flush=True)
                failed.append(name)
    print(f"isolated: {len(names)} members, failed: {', '.join(failed) or 'none'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
