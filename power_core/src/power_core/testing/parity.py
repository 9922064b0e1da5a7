"""Parity with plain decoding on a real backend: the reference, forced acceptance, and the state after every round.

The reference is always plain single-token decoding in the same process with the same settings and prompt chunks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.opening import open_session
from power_core.plugins.manager import load_plugins
from power_core.testing.forced import ForcedPlugins
from power_core.tokens import SequenceRows, TokenId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from power_core.session import Session
    from power_core.target import TargetContext

_WORDS = (
    "def",
    "return",
    "import",
    "for",
    "in",
    "range",
    "the",
    "of",
    "self",
    "(n):",
    "\n    ",
    "x",
    "= 0",
    "print",
    "if",
)

Truth = dict[tuple[TokenId, ...], list[TokenId]]

FORCED: dict[str, Callable[[random.Random], Callable[[int], int]]] = {
    "zero": lambda rng: lambda limit: 0,
    "partial": lambda rng: lambda limit: rng.randint(0, limit),
    "full": lambda rng: lambda limit: limit,
}


def text_prompts(count: int, seed: int = 0) -> list[str]:
    """Return different short pseudo-code prompts, the same for the same seed."""
    rng = random.Random(seed)
    return [f"# {index}\n" + " ".join(rng.choices(_WORDS, k=rng.randint(3, 24))) for index in range(count)]


def reference(model: Path, prompts: Sequence[str], max_tokens: int, **settings: Any) -> Truth:
    """Return what plain decoding emits for each prompt, keyed by its tokens."""
    truth: Truth = {}
    with open_session(model=model, spec="off", **settings) as session:
        for prompt in prompts:
            tokens = tuple(session.model.vocabulary.tokenize(prompt))
            truth[tokens] = list(session.generate(tokens, max_tokens=max_tokens).result().tokens)
    return truth


@attrs.frozen(kw_only=True)
class ParityRun:
    """Totals of one configuration, and the prompts whose output differed."""

    prompts: int
    emitted_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    rounds: int
    replays: int
    differing: tuple[tuple[TokenId, ...], ...]


@contextmanager
def forced_session(
    model: Path, truth: Truth, forced: str | None, spec: str, seed: int = 0, **settings: Any
) -> Iterator[Session]:
    """Open a session whose drafts are forced (``zero``, ``partial``, ``full``), or the drafter's own when None."""
    plugins = load_plugins()
    if forced is not None:
        plugins = ForcedPlugins(plugins, truth, FORCED[forced](random.Random(seed))).as_manager()
    with open_session(model=model, spec=spec, plugins=plugins, **settings) as session:
        yield session


def run_parity(model: Path, truth: Truth, forced: str | None, spec: str, **settings: Any) -> ParityRun:
    """Decode every prompt of ``truth`` speculatively and compare token for token."""
    reports, differing = [], []
    with forced_session(model, truth, forced, spec, **settings) as session:
        for prompt, tokens in truth.items():
            result = session.generate(prompt, max_tokens=len(tokens)).result()
            reports.append(result.report)
            if list(result.tokens) != tokens:
                differing.append(prompt)
    return ParityRun(
        prompts=len(truth),
        emitted_tokens=sum(report.emitted_tokens for report in reports),
        drafted_tokens=sum(report.drafted_tokens for report in reports),
        accepted_tokens=sum(report.accepted_tokens for report in reports),
        rounds=sum(report.rounds for report in reports),
        replays=sum(report.replays for report in reports),
        differing=tuple(differing),
    )


def next_logits(context: TargetContext, tokens: Sequence[TokenId]) -> NDArray[np.float32]:
    """Evaluate ``tokens`` one by one after what the context holds; return their logits float32[n, n_vocab]."""
    rows = []
    for token in tokens:
        position = context.length_tokens()
        context.evaluate((SequenceRows(start_pos=position, tokens=(token,)),), kernels="decode")
        rows.append(context.logits(0).copy())
    return np.stack(rows)


def fresh_logits(
    context: TargetContext, prompt: Sequence[TokenId], generated: Sequence[TokenId], probe: Sequence[TokenId]
) -> NDArray[np.float32]:
    """Return the logits of ``probe`` after the prompt by its chunks and the generated tokens one by one."""
    context.clear()
    for at in range(0, len(prompt), context.ubatch_rows):
        chunk = prompt[at : at + context.ubatch_rows]
        context.evaluate((SequenceRows(start_pos=at, tokens=chunk, logits="last"),), kernels="prefill")
    for offset, token in enumerate(generated):
        context.evaluate((SequenceRows(start_pos=len(prompt) + offset, tokens=(token,)),), kernels="decode")
    return next_logits(context, probe)
