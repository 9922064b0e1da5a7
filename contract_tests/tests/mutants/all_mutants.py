"""Every mutant by name."""

from mutants import boundary, drafting, files, library, limits, memory, registration, rounds, widths
from mutants.planting import MUTANTS

__all__ = [
    "MUTANTS",
    "boundary",
    "drafting",
    "files",
    "library",
    "limits",
    "memory",
    "registration",
    "rounds",
    "widths",
]
