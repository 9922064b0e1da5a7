"""How every generator of a page here ends: write it, or say that the written one is stale."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(target: Path, text: str) -> int:
    """Write the page, or with ``--check`` on the command line return 1 when the written one differs."""
    if "--check" not in sys.argv[1:]:
        target.write_text(text, encoding="utf-8")
        return 0
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return 0
    print(f"{target.name} is stale; run `python docs/{Path(sys.argv[0]).name}`", file=sys.stderr)
    return 1
