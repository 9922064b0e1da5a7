"""The table of ``power doctor`` on arithmetic with planted faults."""

from __future__ import annotations

import pytest
from core_sessions import N_VOCAB
from noisy_targets import exact_up_to, open_noisy_context

from power_core.exactness.cache import ProbeCache
from power_core.exactness.probe import ProbeCell, ProbeTable
from power_core.exactness.survey import survey_context


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))
    return ProbeCache(key={"model": "m"})


def survey(context, cache):
    return survey_context(context, rows=4, n_vocab=N_VOCAB, cache=cache)


@pytest.mark.parametrize("recurrent", [False, True])
def test_every_depth_is_measured_once_and_nothing_stays(cache, recurrent):
    noise = lambda depth, rows: 0.25 if depth + rows > 256 and rows > 2 else 0.0  # noqa: E731
    context = open_noisy_context(noise, rows=4, recurrent=recurrent)
    found = survey(context, cache)
    assert found.depths_tokens == (8, 64, 255, 300, 520, 2996)
    assert [found.at_depth(depth).widest_rows for depth in found.depths_tokens] == [4, 4, 2, 2, 2, 2]
    assert (found.widest_rows, found.largest_difference, found.not_kept) == (2, 0.25, None)
    assert context.tokens() == []
    context.evaluations.clear()
    assert survey(context, cache).table == found.table
    assert context.evaluations == []


def test_what_else_the_cache_holds_is_not_shown(cache):
    cells = [ProbeCell(depth_tokens=depth, rows=rows, difference=9.0) for depth, rows in ((8, 5), (99, 2))]
    cache.store(ProbeTable(cells=tuple(cells)))
    found = survey(open_noisy_context(exact_up_to(9), rows=4), cache)
    assert (found.widest_rows, found.largest_difference) == (4, 0.0)


def test_a_short_context_has_the_depths_that_fit(cache):
    assert survey(open_noisy_context(exact_up_to(9), rows=4, ctx_tokens=70), cache).depths_tokens == (8, 64, 66)
