"""Check what a release needs: valid news fragments, one version, one licence text."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEMBERS = ("power_core", "native", "plugins/*", "contract_tests")


def load(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def fragment_problems() -> list[str]:
    """Every fragment is ``<slug>.<type>.md`` with a known type and a text."""
    known = {kind["directory"] for kind in load(ROOT / "pyproject.toml")["tool"]["towncrier"]["type"]}
    problems = []
    for file in sorted((ROOT / "news").glob("*")):
        if file.name in {"template.md.jinja", ".gitkeep"}:
            continue
        slug, _, kind = file.stem.rpartition(".")
        if file.suffix != ".md" or not slug or kind not in known:
            problems.append(f"news/{file.name}: expected <slug>.<type>.md with a type of {', '.join(sorted(known))}")
        elif not file.read_text(encoding="utf-8").strip():
            problems.append(f"news/{file.name}: empty")
    return problems


def member_problems() -> list[str]:
    """All members carry the workspace's version and its licence text."""
    version = load(ROOT / "pyproject.toml")["project"]["version"]
    licence = (ROOT / "LICENSE").read_bytes()
    problems = []
    for project in sorted(path for pattern in MEMBERS for path in ROOT.glob(f"{pattern}/pyproject.toml")):
        name = project.parent.relative_to(ROOT)
        found = load(project)["project"].get("version")
        if found != version:
            problems.append(f"{name}: version {found!r}, expected {version!r} as in the root pyproject.toml")
        copy = project.parent / "LICENSE"
        if not copy.exists() or copy.read_bytes() != licence:
            problems.append(f"{name}/LICENSE differs from LICENSE; copy it")
    return problems


def main() -> int:
    """Print the problems and a draft of the next changelog section."""
    problems = fragment_problems() + member_problems()
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"], cwd=ROOT, check=False
    )
    if draft.returncode != 0:
        problems.append("towncrier cannot build the changelog from news/")
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"news: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
