"""What the contract kit needs to know; imported by the kit alone."""

from power_contract.subject import ContractSubject

SUBJECT = ContractSubject(
    name="power-echo",
    strategy="echo",
    plugin="power_echo.plugin",
    features=frozenset({"mutable-memory"}),
    target_kinds=("hybrid", "attention", "sliding-window"),
)
