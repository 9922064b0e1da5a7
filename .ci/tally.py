"""Run the CI steps in order, also after a failure, and print one tally at the end."""

import os
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

from live_command import run_live

ROOT = Path(__file__).resolve().parent.parent
SUBJECTS = (
    *("power-mtp", "power-dflash", "power-dflash2", "power-dspark"),
    *("power-ngram", "power-ngram-context", "power-ngram-pool"),
)
ZOO_PYTHON = ROOT / "build" / "zoo-venv" / "bin" / "python"
TEST_COMMAND = re.compile(r"<!-- test-command -->\s*```\w*\n(?P<command>.*?)\n```", re.DOTALL)
NOT_RUN = re.compile(r"^not run here: (.+)$", re.MULTILINE)


class Step(NamedTuple):
    """A name and the shell commands that make it; every command runs, each must succeed."""

    name: str
    commands: tuple[str, ...]


class Outcome(NamedTuple):
    """What a step came to."""

    name: str
    failed: tuple[str, ...]
    seconds: float
    output: str

    @property
    def passed(self) -> bool:
        """True when no command failed."""
        return not self.failed


def readme_test_command() -> str:
    """Return the test command that README.md gives its readers."""
    found = TEST_COMMAND.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if found is None:
        sys.exit("ci: README.md has no fenced block after `<!-- test-command -->`; put the test command there")
    return found["command"].strip()


def steps(*, full: bool) -> list[Step]:
    """List the steps; the first one builds the native library and installs the workspace."""
    groups = " --group real-model" if full else ""
    examples = sorted(path.relative_to(ROOT) for path in ROOT.glob("examples/*.py"))
    listed = [
        Step("set-up", (f"uv sync --inexact{groups}",)),
        Step("lint", ("uv run ruff format --check .", "uv run ruff check .")),
        Step("types", ("uv run mypy",)),
        Step("imports", ("uv run lint-imports", "uv run python .ci/imports.py")),
        Step("tests", (readme_test_command(),)),
        Step("contract", (f"uv run power-contract run {' '.join(SUBJECTS)} --profile {'contract' if full else 'ci'}",)),
        Step("examples", tuple(f"uv run python {path}" for path in examples)),
        Step("isolated", ("uv run python .ci/isolated_installs.py",)),
        Step("strangers", ("uv run python .ci/stranger.py dist", "uv run python .ci/second_stranger.py dist")),
        Step("news", ("uv run python .ci/news.py",)),
    ]
    if full:
        listed.append(Step("renamed", ("uv run python .ci/renamed_plugin.py dist",)))
        wanted = "--requirement examples/zoo/requirements-train.txt ./power_core ./native"
        pip = f"{ZOO_PYTHON} -m pip install --quiet {wanted}"
        listed.append(Step("zoo set-up", (f"python3 -m venv --clear {ZOO_PYTHON.parents[1]}", pip)))
        command = f'POWER_ZOO_PYTHON={ZOO_PYTHON} uv run{groups} pytest -m "(full or real_model or slow) and not gpu"'
        listed.append(Step("full tests", (command,)))
    return listed


def run_step(step: Step) -> Outcome:
    """Run all commands of a step."""
    start = time.monotonic()
    environment = {**os.environ, "UV_NO_PROGRESS": "1"}
    results = [(command, run_live(command, ROOT, environment)) for command in step.commands]
    return Outcome(
        step.name,
        tuple(command for command, done in results if done.status != 0),
        time.monotonic() - start,
        "".join(done.output for _, done in results),
    )


def print_tally(outcomes: list[Outcome], missing: list[str], *, full: bool) -> None:
    """Print the table and the one line that sums it up."""
    print(f"\n{'step':<12} {'result':<8} {'seconds':>7}")
    for outcome in outcomes:
        row = f"{outcome.name:<12} {'ok' if outcome.passed else 'FAILED':<8} {outcome.seconds:>7.0f}"
        print(row, *outcome.failed, sep="  ")
    for name in missing:
        print(f"{name:<12} {'NOT RUN':<8} {'-':>7}")
    parts = [f"{o.name} {'ok' if o.passed else 'FAILED'} {o.seconds:.0f}s" for o in outcomes]
    parts += [f"{name} NOT RUN" for name in missing]
    print("ci: " + " | ".join(parts) + "; not run here: " + not_run_here(outcomes, full=full))


def not_run_here(outcomes: list[Outcome], *, full: bool) -> str:
    """Name the tests left out, as pytest's last run reported them."""
    wanted = "full tests" if full else "tests"
    for outcome in outcomes:
        if outcome.name == wanted:
            found = NOT_RUN.findall(outcome.output)
            return found[-1] if found else "nothing"
    return "unknown, the tests did not run"


def main(arguments: list[str]) -> int:
    """Run everything; return 0 only when every step ran and passed."""
    if arguments not in ([], ["--full"]):
        sys.exit(f"ci: unknown arguments {arguments}, expected none or --full")
    full = arguments == ["--full"]
    planned = steps(full=full)
    outcomes = [run_step(planned[0])]
    if outcomes[0].passed:
        outcomes += [run_step(step) for step in planned[1:]]
    print_tally(outcomes, [step.name for step in planned[len(outcomes) :]], full=full)
    return 0 if len(outcomes) == len(planned) and all(o.passed for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
