"""Every mutant by name."""

from mutants import drafting, files, library, limits, memory, registration, rounds, widths
from mutants.planting import MUTANTS

__all__ = ["MUTANTS", "drafting", "files", "library", "limits", "memory", "registration", "rounds", "widths"]
