"""Opens the files named on standard input, one line of JSON each, and decodes with them; run as a child process.

Before each file it prints ``begin``, after it the outcome: ``ok`` or the error's code. Whoever reads that knows which
file ended the process.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path

from power_core.errors import PowerError
from power_core.opening import open_session

HANG_SECONDS = 60.0
TEXT = "Grüße, a b\n\t<end> 123"
TOKENS = [5, 6, 7, 8, 9, 10, 11]


def use(model: Path, draft: Path | None) -> str:
    """Return ``ok`` or the code of the error; anything but a ``PowerError`` passes through and ends the process."""
    try:
        with open_session(model=model, draft=draft, spec="auto", ctx=64, threads=1) as session:
            session.generate(TOKENS, max_tokens=8).result()
            session.generate(TEXT, max_tokens=4).result()
    except PowerError as error:
        return error.code
    return "ok"


def main() -> None:
    """Work through standard input."""
    for line in sys.stdin:
        model, draft = json.loads(line)
        print("begin", flush=True)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        outcome = use(Path(model), None if draft is None else Path(draft))
        faulthandler.cancel_dump_traceback_later()
        print(outcome, flush=True)


if __name__ == "__main__":
    main()
