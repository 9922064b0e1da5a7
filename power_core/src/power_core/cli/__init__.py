"""The command line, program ``power``. The libraries for it are imported in this package and nowhere else."""

from __future__ import annotations

from power_core.cli.application import main

__all__ = ["main"]
