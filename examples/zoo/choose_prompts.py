"""Writes prompts.json: up to two windows of each held-out file, their places decided by the hash of the file's path.

Run once, before any training; the file is kept, so that every Python version measures the same prompts.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from recipe.corpus import SourceFile, read_split

PROMPTS = 40
WINDOWS = 2
LEAST_LINES = 40
PROMPT_LINES = 12


def main() -> None:
    """Choose and write the prompts."""
    files = [file for file in read_split("heldout") if file.text.count("\n") >= LEAST_LINES]
    places = [(number, _hash(file.path), file) for number in range(WINDOWS) for file in files]
    places.sort(key=lambda place: place[:2])
    prompts = [
        {"name": f"{file.path} {number + 1}", "file": file.path, "text": _window(file, number)}
        for number, _, file in places[:PROMPTS]
    ]
    path = Path(__file__).resolve().with_name("prompts.json")
    path.write_text(json.dumps(prompts, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {len(prompts)} prompts")


def _window(file: SourceFile, number: int) -> str:
    lines = file.text.splitlines(keepends=True)
    start = _hash(f"{file.path} {number}") % (len(lines) - PROMPT_LINES)
    return "".join(lines[start : start + PROMPT_LINES])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


if __name__ == "__main__":
    main()
