"""Catalogue of drafts with one fault each: what a block draft can be wrong in, alone or beside its target."""

from __future__ import annotations

from artifact_cases import ArtifactCase
from broken_draft_keys import KEY_CASES, TOKENIZER_CASES
from broken_draft_pairs import PAIR_CASES, ROLE_CASES
from broken_draft_tensors import FILE_CASES, OWN_CASES, TENSOR_CASES

CASES: tuple[ArtifactCase, ...] = (
    *FILE_CASES,
    *KEY_CASES,
    *TENSOR_CASES,
    *OWN_CASES,
    *TOKENIZER_CASES,
    *ROLE_CASES,
    *PAIR_CASES,
)
