"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

import attrs

from power_contract.subject import ContractSubject, KnownDraft
from power_core.testing.tiny_weights import TargetKind

# Worked out by hand: what followed the longest known end of the output, where it occurred last; in the prompt alone.
PROMPT_DRAFTS = (
    KnownDraft(prompt=(1, 2, 3, 4, 5, 1, 2, 6, 7), generated=(1,), anchor=2, tokens=(6, 7)),
    KnownDraft(prompt=(9, 1, 2, 3, 4, 8, 1, 2, 5, 6), generated=(9, 1), anchor=2, tokens=(3, 4, 8, 1)),
    KnownDraft(prompt=(9, 1, 2, 3, 4, 8, 1, 2, 5, 6), generated=(7, 1), anchor=2, tokens=(5, 6)),
    KnownDraft(prompt=(1, 2, 3, 4), generated=(2,), anchor=1, tokens=()),
    KnownDraft(prompt=(5, 6, 7), generated=(1, 2, 3, 1), anchor=2, tokens=()),
)
# In the output first, then in the prompt.
CONTEXT_DRAFTS = (
    KnownDraft(prompt=(1, 2, 6, 7), generated=(1, 2, 3, 4, 1), anchor=2, tokens=(3, 4, 1, 2)),
    KnownDraft(prompt=(1, 2, 3, 4, 5, 1, 2, 6, 7), generated=(1,), anchor=2, tokens=(6, 7)),
    KnownDraft(prompt=(5, 6, 7), generated=(1, 2, 3, 1, 2, 4, 1), anchor=2, tokens=(4, 1, 2)),
)
# The longest match in prompt and output, three tokens at least; the copy goes on with itself.
POOL_DRAFTS = (
    KnownDraft(prompt=(9, 1, 2, 3, 4, 8, 7, 1, 2, 3, 5, 6), generated=(9, 1, 2), anchor=3, tokens=(4, 8, 7, 1)),
    KnownDraft(prompt=(9, 1, 2, 3, 4, 8, 7, 1, 2, 3, 5, 6), generated=(1, 2), anchor=3, tokens=(5, 6, 1, 2)),
    KnownDraft(prompt=(5, 1, 2, 3, 6), generated=(1, 2), anchor=3, tokens=(6, 1, 2, 3)),
    KnownDraft(prompt=(8, 9), generated=(4, 5, 4, 5), anchor=4, tokens=(5, 4, 5, 4)),
    KnownDraft(prompt=(8, 4, 4), generated=(4,), anchor=4, tokens=(4, 4, 4, 4)),
    KnownDraft(prompt=(1, 2, 3, 4), generated=(1,), anchor=2, tokens=()),
)


def known_drafts(target_kind: TargetKind) -> tuple[KnownDraft, ...]:
    """Return lookups in the prompt; the target's kind does not matter."""
    return PROMPT_DRAFTS


def known_context_drafts(target_kind: TargetKind) -> tuple[KnownDraft, ...]:
    """Return lookups in the output and the prompt."""
    return CONTEXT_DRAFTS


def known_pool_drafts(target_kind: TargetKind) -> tuple[KnownDraft, ...]:
    """Return lookups in the pool."""
    return POOL_DRAFTS


SUBJECT = ContractSubject(
    name="power-ngram",
    strategy="prompt-lookup",
    plugin="power_ngram.plugin",
    features=frozenset({"mutable-memory", "known-drafts"}),
    target_kinds=("hybrid", "attention", "sliding-window"),
    known_drafts=known_drafts,
)
CONTEXT_SUBJECT = attrs.evolve(SUBJECT, strategy="ngram-context", known_drafts=known_context_drafts)
POOL_SUBJECT = attrs.evolve(SUBJECT, strategy="ngram-pool", known_drafts=known_pool_drafts)
