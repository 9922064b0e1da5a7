"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

import attrs

from power_contract.subject import ContractSubject

SUBJECT = ContractSubject(
    name="power-ngram",
    strategy="prompt-lookup",
    plugin="power_ngram.plugin",
    features=frozenset({"mutable-memory"}),
    target_kinds=("hybrid", "attention", "sliding-window"),
)
CONTEXT_SUBJECT = attrs.evolve(SUBJECT, strategy="ngram-context")
