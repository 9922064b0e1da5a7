"""Fill the blocks of README.md with what the program really prints.

    uv run python docs/generate_readme.py            every block; runs the commands of README.md
    uv run python docs/generate_readme.py --static   only the blocks that need no model
    uv run python docs/generate_readme.py --check    writes nothing; 1 when README.md is stale

A block stands between ``<!-- kind:name -->`` and ``<!-- end -->``. Static blocks are compared; a recorded run has
timings in it and is checked for its lines only.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from power_core.cli.report_view import format_report
from power_core.report import GenerationResult, Report

Describe: TypeAlias = Callable[[dict[str, Any] | None], tuple[str, str]]

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
SET_UP = "pip install uv && "
MAX_LINES = 249

SPEC = re.compile(r"--spec [\w-]+")
MARKER = re.compile(r"<!-- (?P<name>\w+:[\w-]+) -->")
BLOCK = re.compile(r"<!-- (?P<name>\w+:[\w-]+) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)
COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:home|root|tmp|work|mnt|Users)/\S*")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def fence(text: str, language: str = "text") -> str:
    """Return the text as a fenced block that no backticks inside can close; control characters become U+FFFD."""
    shown = CONTROL.sub("\ufffd", text.strip("\n"))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{shown}\n{ticks}\n"


# ------------------------------------------------------------------------------------------------------ static blocks


def example_block() -> str:
    """The source of the shortest example."""
    return fence((ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8"), "python")


def benchmark_block() -> str:
    """One row per benchmark whose result is recorded."""
    rows = [benchmark_row(name, describe) for name, describe in BENCHMARKS.items()]
    return "\n".join(["| What | Result | Command |", "| --- | --- | --- |", *rows, ""])


def benchmark_row(name: str, describe: Describe) -> str:
    """Return the row of one benchmark, from ``benchmarks/results/NAME.json``."""
    file = RESULTS / f"{name}.json"
    what, result = describe(json.loads(file.read_text(encoding="utf-8")) if file.exists() else None)
    return f"| {what} | {result} | `uv run python benchmarks/{name}.py` |"


def round_cost(figures: dict[str, Any] | None) -> tuple[str, str]:
    """Name and value of the own cost of a round."""
    what = "Wall time of a round outside llama.cpp, tiny random-weight targets"
    if figures is None:
        return what, "not measured yet"
    results = [
        f"`{target['spec']}`{' on the zoo' * (target['width'] == 'zoo')}, {target['model_mb']} MB: "
        f"median {target['median_us']} µs, 99th percentile {target['p99_us']} µs"
        for target in figures["targets"]
    ]
    rounds = figures["targets"][0]["rounds"]
    return f"{what}, K = {figures['draft_max']}, {rounds:,} rounds each", "<br>".join(results)


def block_parity(figures: dict[str, Any] | None) -> tuple[str, str]:
    """Name and value of the block drafters' parity with plain decoding."""
    what = "Greedy outputs of the block drafters that equal plain decoding, tiny random-weight models"
    if figures is None:
        return what, "not measured yet"
    runs = [outcome[mode] for outcome in figures["cells"].values() for mode in ("own", "forced")]
    equal, prompts = sum(run["equal"] for run in runs), sum(run["prompts"] for run in runs)
    size = f"{len(figures['cells'])} configurations, {figures['tokens']} tokens each"
    return f"{what}: {size}", f"{equal:,} of {prompts:,}"


def session_memory(figures: dict[str, Any] | None) -> tuple[str, str]:
    """Name and value of the growth of memory."""
    what = "Growth of resident memory over sessions opened, used and closed"
    if figures is None:
        return what, "not measured yet"
    return f"{what}, {figures['sessions']} of them", f"{figures['growth_mb']} MB"


BENCHMARKS: dict[str, Describe] = {
    "round_cost": round_cost,
    "block_parity": block_parity,
    "session_memory": session_memory,
}


# ------------------------------------------------------------------------------------------------------ recorded runs


def run(command: str) -> str:
    """Run a block of commands as a reader does and return what a terminal shows: the answer, then the report."""
    print(f"$ {command}", flush=True)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, capture_output=True, check=False)
    answer, report = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    if done.returncode != 0:
        sys.exit(f"README.md: a command ended with status {done.returncode}:\n{command}\n{answer}{report}")
    return answer + ("\n" if answer and not answer.endswith("\n") else "") + report


def compared_run(command: str) -> str:
    """Text and report of ``power generate``, and the speed of ``--spec off``, which has to write the same text."""
    shown, plain = run(command), run(SPEC.sub("--spec off", command))
    if text_of(shown) != text_of(plain):
        sys.exit(f"README.md: the text is not that of --spec off:\n{shown}\n{plain}")
    return fence(f"{shown.rstrip()}\n\n{'with --spec off':<24}the same text, {speed_of(plain)}")


def speed_of(shown: str) -> str:
    """Return the speed that a report names."""
    return re.findall(r"^speed +(.+)$", shown, re.MULTILINE)[-1]


def text_of(shown: str) -> str:
    """Return what stands before the report."""
    return shown.rpartition("\nstrategy  ")[0]


def doctor_run(command: str) -> str:
    """The last two sections of ``power doctor``, without the folders of this machine."""
    sections = run(command).partition("\nPlugins\n")
    shown = "".join(sections[1:]).replace(str(ROOT.parent), "~").replace(str(Path.home()), "~")
    return fence(shown)


STATIC: dict[str, Callable[[], str]] = {
    "example:python": example_block,
    "results:benchmarks": benchmark_block,
}
RUNS: dict[str, Callable[[str], str]] = {
    "output:first-run": compared_run,
    "output:real-model": compared_run,
    "output:doctor": doctor_run,
}


def lines_of_run(name: str) -> list[str]:
    """Return the beginnings of lines that a recorded run must have."""
    if name == "output:doctor":
        return ["Plugins", "Health", "ok       backend: "]
    empty = GenerationResult(tokens=(), text="", finish_reason="length", report=Report(strategy="off"))
    return [line[:24] for line in format_report(empty).splitlines()]


# ---------------------------------------------------------------------------------------------------- write and check


def filled(text: str, *, static: bool) -> str:
    """Return README.md with new blocks, only the static ones if ``static``."""

    def block(match: re.Match[str]) -> str:
        name, body = match["name"], match["body"]
        if name in STATIC:
            body = STATIC[name]()
        elif not static:
            command = COMMANDS.findall(text[: match.start()])[-1]
            body = RUNS[name](command.rpartition(SET_UP)[2])
        return f"<!-- {name} -->\n{body}<!-- end -->"

    return BLOCK.sub(block, text)


def problems(text: str) -> list[str]:
    """Return what is wrong with README.md, one line each; empty when it is up to date."""
    return [*structure_problems(text), *block_problems(text), *page_problems(text)]


def structure_problems(text: str) -> list[str]:
    """Every marker is known, stands once, and has a block of its own."""
    markers = MARKER.findall(text)
    blocks = {match["name"]: match["body"] for match in BLOCK.finditer(text)}
    found = [f"marker {name} stands {markers.count(name)} times" for name in STATIC | RUNS if markers.count(name) != 1]
    found += [f"marker {name} is unknown" for name in markers if name not in STATIC | RUNS]
    found += [f"marker {name} has no block" for name in markers if not blocks.get(name, "").strip()]
    return found + [f"block {name} has no end" for name, body in blocks.items() if MARKER.search(body)]


def block_problems(text: str) -> list[str]:
    """Static blocks say what the program says; recorded runs have the lines that such a run prints."""
    found = []
    for match in BLOCK.finditer(text):
        name, body = match["name"], match["body"]
        if name in STATIC and body != STATIC[name]():
            found.append(f"block {name} is stale")
        if name in RUNS:
            found += [f"block {name} has no line {start!r}" for start in lines_of_run(name) if f"\n{start}" not in body]
    return found


def page_problems(text: str) -> list[str]:
    """The page is short, its links lead somewhere, and it names no folder of a machine."""
    found = [f"link to {link}, which is absent" for link in LINK.findall(text) if not (ROOT / link).exists()]
    found += [f"path of a machine: {path}" for path in MACHINE_PATH.findall(text)]
    lines = text.count("\n")
    return found + ([f"{lines} lines, at most {MAX_LINES} are allowed"] if lines > MAX_LINES else [])


def main() -> int:
    """Write the blocks, or with ``--check`` return 1 and say what is wrong."""
    arguments = sys.argv[1:]
    if arguments not in ([], ["--static"], ["--check"]):
        sys.exit(f"unknown arguments {arguments}, expected none, --static or --check")
    text = README.read_text(encoding="utf-8")
    if arguments != ["--check"]:
        text = filled(text, static=arguments == ["--static"])
        README.write_text(text, encoding="utf-8")
    wrong = problems(text)
    for line in wrong:
        print(f"README.md: {line}; run `python docs/generate_readme.py`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
