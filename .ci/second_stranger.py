"""A second stranger: a plugin with a file, a validator, hidden rows and a memory of its own, built from wheels alone.

examples/power-rowlookup is no member of the workspace. Its wheel is built, installed beside core, library and kit into
an empty environment, and run through the kit; then it learns a table from text and drafts with it.
``.ci/second_stranger.py FOLDER`` takes the three wheels from a folder instead of building them.
"""

import json
import sys
import tempfile
from pathlib import Path

from wheel_environment import ROOT, WheelEnvironment

PLUGIN = ROOT / "examples/power-rowlookup"
TARGET = "from power_core.testing import default_target_path; print(default_target_path())"
TEXT = "one two three four one two three four " * 40


def main(arguments: list[str]) -> None:
    """Check everything; leave with status 1 when something was wrong."""
    with tempfile.TemporaryDirectory(prefix="power-rowlookup-") as folder:
        stranger = WheelEnvironment(Path(folder), "work")
        stranger.prepare(Path(arguments[0]) if arguments else None, PLUGIN)
        stranger.must("power-contract run power-rowlookup --profile ci")
        (stranger.work / "text.txt").write_text(TEXT, encoding="utf-8")
        target = stranger.must(f'python -c "{TARGET}"').strip()
        stranger.must(f"python -m power_rowlookup.learn {target} text.txt table.gguf")
        generate = f"power generate --model {target} --max-tokens 32 --prompt 'one two three four one two'"
        plain = stranger.must(f"{generate} --spec off --json")
        drafted = stranger.must(f"{generate} --spec rowlookup --draft table.gguf --json")
    check(plain, drafted)


def check(plain: str, drafted: str) -> None:
    """Require the same text, with drafts."""
    plain_result, drafted_result = json.loads(plain), json.loads(drafted)
    if plain_result["text"] != drafted_result["text"]:
        raise SystemExit("second stranger: the drafter changed the output")
    if drafted_result["report"]["drafted_tokens"] == 0:
        raise SystemExit("second stranger: the drafter never drafted")
    print("second stranger: the contract holds, the output is plain decoding's")


if __name__ == "__main__":
    main(sys.argv[1:])
