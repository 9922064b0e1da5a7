"""The contract kit: properties that every drafter's plugin must hold, checked on real targets.

A plugin author writes one ``ContractSubject`` and runs ``power-contract run <subject>``.
"""

from power_contract.clauses import Clause, clause, load_clauses
from power_contract.subject import ArtifactCase, ContractSubject, Feature, KnownDraft, Waiver, find_subject

__all__ = [
    "ArtifactCase",
    "Clause",
    "ContractSubject",
    "Feature",
    "KnownDraft",
    "Waiver",
    "clause",
    "find_subject",
    "load_clauses",
]
