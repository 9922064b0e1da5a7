"""The tests of the contract; every one checks one clause of clauses.toml."""
