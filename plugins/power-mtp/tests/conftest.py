"""A real target with an MTP drafter beside it, driven row by row."""

import pytest
from drafter_bench import DrafterBench

from power_mtp import plugin

(SPEC,) = plugin.power_strategies()


@pytest.fixture
def open_bench():
    """Return a function that opens a bench on a model; all are closed after the test."""
    opened = []

    def open_one(model, **settings):
        opened.append(DrafterBench(model, SPEC, **settings))
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.close()
