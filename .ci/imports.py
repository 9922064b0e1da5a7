"""Two import rules that import-linter cannot express.

1. A ``plugin`` module is light: importing it loads power_core.plugins, errors, tokens, its own package and config.
2. No package imports a private module or name of another package; examples and benchmarks use public names alone.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEMBERS = ("power_core", "native", "plugins/*", "contract_tests")
PROGRAMS = ("examples", "benchmarks")
PROBE = """
import importlib, sys
import power_core.plugins
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(*sorted(set(sys.modules) - before))
"""


def heavy_imports(plugin: str) -> list[str]:
    """Return what importing the plugin module loads beyond what the rule allows."""
    done = subprocess.run([sys.executable, "-c", PROBE, plugin], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"{plugin}: cannot be imported:\n{done.stderr}"]
    package = plugin.removesuffix(".plugin")
    allowed = {package, f"{package}.plugin", f"{package}.config", "power_core.errors", "power_core.tokens"}
    loaded = [name for name in done.stdout.split() if name not in allowed and not is_standard(name)]
    return [f"{plugin} loads {name} at import; import it inside the factory" for name in loaded]


def is_standard(module: str) -> bool:
    """Tell whether a module belongs to the standard library."""
    return module.partition(".")[0] in sys.stdlib_module_names


def private_imports(file: Path, own: str) -> list[str]:
    """Return the imports of private modules or names that belong to a package other than ``own``."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for name in imported_names(node):
            top, *rest = name.split(".")
            if top != own and top.startswith("power_") and any(private(part) for part in rest):
                found.append(f"{file.relative_to(ROOT)} imports {name}, which is private to {top}")
    return found


def private_attributes(file: Path) -> list[str]:
    """Return the private attributes that a program takes from an object that is not its own."""
    return [
        f"{file.relative_to(ROOT)}:{node.lineno} uses {ast.unparse(node)}, which is private"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and private(node.attr) and ast.unparse(node.value) not in ("self", "cls")
    ]


def imported_names(node: ast.AST) -> list[str]:
    """Return the dotted names an import statement brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def private(name: str) -> bool:
    """Tell whether a name is private; ``__version__`` and its like are not."""
    return name.startswith("_") and not name.startswith("__")


def main() -> int:
    """Check every plugin, every source file and every program; print what is wrong."""
    plugin_files = (file for member in MEMBERS for file in ROOT.glob(f"{member}/src/power_*/plugin.py"))
    plugins = sorted(f"{file.parent.name}.plugin" for file in plugin_files)
    packages = sorted(package for member in MEMBERS for package in ROOT.glob(f"{member}/src/power_*"))
    problems = [line for plugin in plugins for line in heavy_imports(plugin)]
    for package in packages:
        for file in sorted(package.rglob("*.py")):
            problems += private_imports(file, package.name)
    programs = sorted(file for folder in PROGRAMS for file in ROOT.glob(f"{folder}/**/*.py"))
    for file in programs:
        problems += [*private_imports(file, ""), *private_attributes(file)]
    print(*problems, sep="\n", end="\n" if problems else "")
    counts = f"{len(plugins)} plugin modules, {len(packages)} packages, {len(programs)} programs"
    print(f"imports: {counts}, {len(problems)} problems")
    return 1 if problems or not plugins or not packages or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
