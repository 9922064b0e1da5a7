"""Plain tables: columns padded with spaces, one line per row, readable by people and by ``grep``."""

from __future__ import annotations

from collections.abc import Sequence

from power_core.cli.console import fold_line


def format_table(rows: Sequence[Sequence[str]], headers: Sequence[str] = ()) -> str:
    """Return the rows, aligned, each ended by a newline; nothing at all without rows."""
    if not rows:
        return ""
    lines = [[fold_line(cell) for cell in row] for row in ([headers] if headers else []) + list(rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(line.rstrip() + "\n" for line in padded)
