"""Be a stranger: install wheels alone into an empty environment, follow the tutorial there, make its mistakes.

docs/writing-a-plugin.md is the script. A comment before a fenced block says what the block is::

    <!-- file: PATH -->   a file of the plugin, the same as in examples/power-echo
    <!-- run -->          commands, run in the plugin's folder; each must succeed
    <!-- mistake: ID -->  a change of one file, after which that clause must fail
    <!-- says -->         lines that the last `run` or `mistake` must have printed

The plugin's own wheel is built, installed and run through the whole kit first. ``.ci/stranger.py FOLDER`` takes the
wheels of core, library and kit from a folder instead of building them.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from wheel_environment import ROOT, WheelEnvironment

TUTORIAL = ROOT / "docs/writing-a-plugin.md"
PLUGIN = ROOT / "examples/power-echo"
CHECK = "power-contract run power-echo --profile ci"
LEAST_MISTAKES = 5
MOST_LINES = 120
BLOCK = re.compile(r"^<!-- (file|run|mistake|says)(?:: (\S+))? -->\n```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced block of the tutorial that means something to this script."""

    kind: str
    name: str
    body: str


class Lesson:
    """Goes through the tutorial block by block and collects what is wrong."""

    def __init__(self, stranger: WheelEnvironment) -> None:
        self.stranger = stranger
        self.problems: list[str] = []
        self.mistakes = 0
        self.output = ""

    def follow(self, blocks: list[Block]) -> None:
        """Take every block in order."""
        for block in blocks:
            getattr(self, f"_{block.kind}")(block)
        if self.mistakes < LEAST_MISTAKES:
            self.problems.append(f"the tutorial shows {self.mistakes} mistakes, expected {LEAST_MISTAKES} or more")

    def _file(self, block: Block) -> None:
        path = self.stranger.work / block.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.body, encoding="utf-8")
        if block.body != (PLUGIN / block.name).read_text(encoding="utf-8"):
            self.problems.append(f"{block.name} in the tutorial differs from examples/power-echo/{block.name}")

    def _run(self, block: Block) -> None:
        self.output = "".join(self.stranger.must(command) for command in block.body.splitlines())

    def _mistake(self, block: Block) -> None:
        self.mistakes += 1
        old, new = (changed_lines(block.body, sign) for sign in "-+")
        files = [path for path in sorted(self.stranger.work.rglob("*.py")) if old in path.read_text(encoding="utf-8")]
        if len(files) != 1:
            raise SystemExit(f"stranger: {len(files)} files hold the lines that a mistake changes:\n{old}")
        right = files[0].read_text(encoding="utf-8")
        files[0].write_text(right.replace(old, new, 1), encoding="utf-8")
        done = self.stranger.run(f"{CHECK} -k {block.name}")
        files[0].write_text(right, encoding="utf-8")
        self.output = done.output
        if done.status == 0:
            self.problems.append(f"the kit passes with this mistake:\n{block.body}")

    def _says(self, block: Block) -> None:
        printed = " ".join(self.output.split())
        for line in block.body.splitlines():
            if " ".join(line.split()) not in printed:
                self.problems.append(f"the tutorial shows a line that was not printed: {line.strip()}")


def changed_lines(diff: str, sign: str) -> str:
    """Return the lines of a diff that carry the sign or none, as they stand in the file."""
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line[:1] in (sign, " ", ""))


def plugin_lines() -> int:
    """Count the lines of the example: what a person writes."""
    files = [PLUGIN / "pyproject.toml", *(PLUGIN / "src").rglob("*.py")]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def main(arguments: list[str]) -> None:
    """Check everything; leave with status 1 when something was wrong."""
    blocks = [Block(*found.groups("")) for found in BLOCK.finditer(TUTORIAL.read_text(encoding="utf-8"))]
    with tempfile.TemporaryDirectory(prefix="power-stranger-") as folder:
        stranger = WheelEnvironment(Path(folder), "power-echo")
        stranger.prepare(Path(arguments[0]) if arguments else None, PLUGIN)
        stranger.must(CHECK)
        lesson = Lesson(stranger)
        lesson.follow(blocks)
    problems = lesson.problems
    if (lines := plugin_lines()) > MOST_LINES:
        problems.append(f"examples/power-echo has {lines} lines, {MOST_LINES} at most")
    print(*problems, sep="\n")
    print(f"stranger: {len(blocks)} blocks, {lesson.mistakes} mistakes, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
