"""Deals target kinds to tests in turn, so that a short run touches every kind without running every test on each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import pytest

KINDS = ("target_kind", "bench_kind")


def deal_kinds(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the items, each test with its other parameters once: on the kind whose turn it is."""
    groups: dict[Hashable, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(_without_kind(item), []).append(item)
    return [group[turn % len(group)] for turn, group in enumerate(groups.values())]


def _without_kind(item: pytest.Item) -> Hashable:
    callspec = getattr(item, "callspec", None)
    parameters = {} if callspec is None else callspec.params
    others = [f"{name}={value!r}" for name, value in parameters.items() if name not in KINDS]
    return item.nodeid.partition("[")[0], *sorted(others)
