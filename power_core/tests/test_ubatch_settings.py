"""Rows computed at once, as a session plans them: the batch unless told, with room for the snapshots."""

import pytest

from power_core.errors import ConfigError
from power_core.planning import context_settings
from power_core.sequence import TargetSequence
from power_core.settings import SessionSettings
from power_core.target import ContextSettings
from power_core.testing.fakes import FakeModel
from power_core.tokens import TapRequest

DRAFT_MAX = 5


def planned(*, recurrent=False, **settings):
    model = FakeModel(recurrent=recurrent)
    values = SessionSettings(**settings)
    return context_settings(values, model.info, TapRequest(), DRAFT_MAX, values.ctx or 4096)


@pytest.mark.parametrize(
    ("settings", "batch_rows", "ubatch_rows"),
    [({}, 512, 512), ({"batch": 40}, 40, 40), ({"batch": 40, "ubatch": 40}, 40, 40), ({"ubatch": 1}, 512, 1)],
)
def test_the_batch_is_the_default(settings, batch_rows, ubatch_rows):
    found = planned(**settings)
    assert (found.batch_rows, found.ubatch_rows) == (batch_rows, ubatch_rows)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 40, "ubatch": 41}, r"batch \(40\)"),
        ({"ctx": 64, "ubatch": 65}, r"batch \(64\)"),
        ({"ubatch": DRAFT_MAX + 1, "recurrent": True}, rf"snapshots \+ 2 \({DRAFT_MAX + 2}\)"),
    ],
)
def test_contradictions_are_refused_by_name(settings, words):
    with pytest.raises(ConfigError, match=words) as caught:
        planned(**settings)
    assert caught.value.field == "ubatch"


def test_recurrent_state_needs_room_for_its_snapshots_only():
    assert planned(ubatch=DRAFT_MAX + 2, recurrent=True).ubatch_rows == DRAFT_MAX + 2
    assert planned(ubatch=4, snapshots=2, recurrent=True).ubatch_rows == 4


def test_a_prompt_goes_in_chunks_that_are_computed_at_once():
    context = FakeModel().open_context(ContextSettings(ctx_tokens=64, batch_rows=16, ubatch_rows=5))
    TargetSequence(context, slice_rows=4).start(list(range(13)))
    assert [sum(len(rows.tokens) for rows in evaluation) for evaluation in context.evaluations] == [5, 5, 3]
