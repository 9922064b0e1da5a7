"""The fixed verification shape: slices of a round with drafts have the same rows; what was added leaves no trace."""

from __future__ import annotations

import attrs
import pytest
from core_sessions import (
    N_VOCAB,
    PROMPT,
    SHAPES,
    drafts_with_acceptance,
    fake_context,
    open_fake_session,
    random_acceptance,
    window,
)
from hypothesis import given
from hypothesis import strategies as st

from power_core.errors import ConfigError
from power_core.planning import make_plan
from power_core.session import Session
from power_core.settings import SessionSettings
from power_core.strategies import ResolvedStrategy
from power_core.target import ContextSettings
from power_core.testing.fakes import FakeModel, ScriptedDrafter, plain_decode


def open_fixed(drafter: ScriptedDrafter, **options: object) -> Session:
    session = open_fake_session(drafter, **options)  # type: ignore[arg-type]
    session.settings = attrs.evolve(session.settings, verify_shape="fixed")
    session._sequence.fixed_shape = True
    return session


def widths_after(session: Session, n_prompt_calls: int) -> list[int]:
    return [len(rows.tokens) for (rows,) in fake_context(session).evaluations[n_prompt_calls:]]


@given(shape=SHAPES, seed=st.integers(0, 2**16), n_tokens=st.integers(1, 40))
def test_output_and_memory_are_those_of_plain_decoding(shape: dict[str, object], seed: int, n_tokens: int) -> None:
    with open_fixed(ScriptedDrafter(random_acceptance(seed)), **window(shape)) as session:
        result = session.generate(PROMPT, max_tokens=n_tokens).result()
        assert list(result.tokens) == plain_decode(PROMPT, n_tokens, N_VOCAB)
        assert fake_context(session).tokens() == list(session.committed_tokens)
        assert result.report.replays == 0


@pytest.mark.parametrize("recurrent", [False, True])
def test_every_slice_of_a_round_with_drafts_has_the_same_rows(recurrent: bool) -> None:
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: limit // 2))
    with open_fixed(drafter, recurrent=recurrent, draft_max=5, slice_rows=4, snapshots=3) as session:
        session.generate(PROMPT, max_tokens=1).result()
        prompt_calls = len(fake_context(session).evaluations)
        session.resume(max_tokens=20).result()
        *widths, last = widths_after(session, prompt_calls)
        assert set(widths) == {4}
        assert last in (1, 4)  # the last token leaves no room for a draft


def test_a_round_without_drafts_stays_a_single_row() -> None:
    with open_fixed(ScriptedDrafter(lambda history, limit: [])) as session:
        session.generate(PROMPT, max_tokens=1).result()
        prompt_calls = len(fake_context(session).evaluations)
        session.resume(max_tokens=5).result()
        assert set(widths_after(session, prompt_calls)) == {1}


def test_the_end_of_the_context_bounds_what_is_added() -> None:
    drafter = ScriptedDrafter(drafts_with_acceptance(lambda limit: 0))
    with open_fixed(drafter, ctx_tokens=len(PROMPT) + 6, draft_max=4, slice_rows=5) as session:
        result = session.generate(PROMPT, max_tokens=50).result()
        assert result.finish_reason == "context_full"
        assert list(result.tokens) == plain_decode(PROMPT, len(result.tokens), N_VOCAB)


def test_slices_that_snapshots_cannot_take_back_are_refused() -> None:
    context = FakeModel(n_vocab=N_VOCAB, recurrent=True).open_context(ContextSettings(ctx_tokens=64, snapshots=3))
    settings = SessionSettings(draft_max=6, snapshots=3, verify_rows="all", verify_shape="fixed")
    with pytest.raises(ConfigError, match=r"at most 4 rows .* there are 7") as caught:
        make_plan(settings, ResolvedStrategy(name="mtp", spec=None, refusals={}), context, 6, [])
    assert caught.value.field == "verify_shape"
    assert "--verify-rows 4" in caught.value.hint
