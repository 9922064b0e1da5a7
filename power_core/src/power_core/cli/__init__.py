"""The command line, program ``power``. The libraries for it are imported in this package and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, 1, 2 for the user's mistakes, 130 or 141.

    An interrupt while the program itself is still being imported ends it as quietly as a later one.

    Args:
        arguments: Words after the program's name; None takes those of the process.
    """
    try:
        from power_core.cli.application import run_application

        return run_application(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


__all__ = ["main"]
