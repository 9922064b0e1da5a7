"""Sections of a documentation page that a benchmark writes from its results."""

from __future__ import annotations

from pathlib import Path


def write_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- name: begin -->`` and ``<!-- name: end -->``.

    Raises:
        ValueError: the page does not have both marks, in that order.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    content = page.read_text(encoding="utf-8")
    head, found, rest = content.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no section between {begin!r} and {end!r}")
    page.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}", encoding="utf-8")


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
