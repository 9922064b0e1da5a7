"""Sessions over fakes, shared by the loop's tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Literal

from hypothesis import strategies as st

from power_core.drafter import Drafter
from power_core.generation import Generation
from power_core.session import Session, SessionPlan
from power_core.settings import SessionSettings
from power_core.target import ContextSettings
from power_core.testing.fakes import FakeContext, FakeModel, plain_decode
from power_core.tokens import TapRequest

N_VOCAB = 97


def open_fake_session(
    drafter: Drafter | None = None,
    *,
    recurrent: bool = False,
    draft_max: int = 4,
    slice_rows: int = 5,
    snapshots: int = 4,
    ctx_tokens: int = 512,
    batch_rows: int = 16,
    first_end: int | None = None,
    taps: bool = False,
    guard_rows: int | None = None,
    checkpoint_rows: int | None = None,
    draft_min: int = 0,
    scheduler: Literal["fixed", "adaptive", "goodput"] = "fixed",
) -> Session:
    """Open a session on a fake target; the plan is given, not negotiated."""
    model = FakeModel(n_vocab=N_VOCAB, recurrent=recurrent, first_end=first_end)
    wanted = TapRequest(nextn=True, layers=(2, 0)) if taps else TapRequest()
    context = model.open_context(
        ContextSettings(ctx_tokens=ctx_tokens, batch_rows=batch_rows, snapshots=snapshots, taps=wanted)
    )
    plan = SessionPlan(
        strategy="scripted",
        draft_max=draft_max if drafter is not None else 0,
        slice_rows=slice_rows,
        guard_rows=guard_rows,
        checkpoint_rows=checkpoint_rows,
    )
    resources = ExitStack()
    resources.callback(model.close)
    resources.callback(context.close)
    if drafter is not None:
        resources.callback(drafter.close)
    return Session(
        settings=SessionSettings(draft_min=draft_min, scheduler=scheduler),
        plan=plan,
        model=model,
        context=context,
        drafter=drafter,
        taps=taps,
        resources=resources,
    )


def fake_context(session: Session) -> FakeContext:
    """Return the fake behind a session."""
    assert isinstance(session.context, FakeContext)
    return session.context


def drafts_with_acceptance(choose: Callable[[int], int]) -> Callable[[list[int], int], Sequence[int]]:
    """Return a script whose drafts are right for ``choose(limit)`` tokens and wrong from there on."""

    def script(history: list[int], limit_tokens: int) -> Sequence[int]:
        right = choose(limit_tokens)
        truth = plain_decode(history, limit_tokens, N_VOCAB)
        return [token if index < right else (token + 1) % N_VOCAB for index, token in enumerate(truth)]

    return script


def random_acceptance(seed: int) -> Callable[[list[int], int], Sequence[int]]:
    """Return a script with every acceptance length, drawn from a seed."""
    rng = random.Random(seed)
    return drafts_with_acceptance(lambda limit: rng.randint(0, limit))


PROMPT = [5, 6, 7] * 7
SHAPES = st.fixed_dictionaries(
    {
        "recurrent": st.booleans(),
        "draft_max": st.integers(1, 9),
        "batch_rows": st.integers(11, 32),
    }
).flatmap(
    lambda shape: st.fixed_dictionaries(
        {
            **{name: st.just(value) for name, value in shape.items()},
            "slice_rows": st.integers(1, shape["draft_max"] + 1),
        }
    )
)


def window(shape: dict[str, object]) -> dict[str, object]:
    """Give a shape the snapshots that its slices need."""
    return {**shape, "snapshots": int(str(shape["slice_rows"])) - 1}


def collect(generation: Generation, got: list[int]) -> None:
    """Take pieces as they come, so that a fault loses none that was handed out."""
    for piece in generation:
        if piece.token is not None:
            got.append(piece.token)
