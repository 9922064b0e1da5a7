"""Whole sessions of a subject, with its own drafts or with drafts of a chosen acceptance."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, cast

import attrs

from power_contract.loading import subject_plugins, subject_strategy
from power_contract.materials import headers, materials
from power_contract.oracle import GREEDY, Oracle
from power_contract.scripted import AcceptanceScript, Lengths, ScriptedDrafter
from power_contract.subject import ContractSubject
from power_core.artifacts import ArtifactValidator, GgufHeader
from power_core.drafter import Drafter
from power_core.opening import open_session
from power_core.plugins import BackendSpec, DrafterContext, StrategySpec
from power_core.plugins.manager import PowerPluginManager
from power_core.sampler import SamplingSettings
from power_core.session import Session
from power_core.strategies import ResolvedStrategy
from power_core.target import ContextSettings

CTX_TOKENS = 256
BATCH_ROWS = 32

Scripted: TypeAlias = Literal["zero", "partial", "full"] | Lengths | None


@contextmanager
def open_subject_session(
    subject: ContractSubject,
    target_kind: str,
    *,
    scripted: Scripted = None,
    sampling: SamplingSettings = GREEDY,
    on_drafter: Callable[[Drafter], Drafter] = lambda drafter: drafter,
    on_spec: Callable[[StrategySpec], StrategySpec] = lambda spec: spec,
    **settings: Any,
) -> Iterator[Session]:
    """Open a session on the subject's tiny target and close it.

    Args:
        subject: The plugin under test.
        target_kind: One of ``materials.target_kinds(subject)`` with weights.
        scripted: Replaces the plugin's drafts after they were made: ``zero``, ``partial`` (drawn from a fixed seed),
            ``full``, or a function of the request that says how many drafts shall be right; None keeps them.
        sampling: How the requests will choose; the script must know it.
        on_drafter: Wraps the drafter once more, e.g. to record its calls.
        on_spec: Changes what the plugin registered.
        **settings: Of ``power_core.opening.open_session``; ``ctx`` 256, ``batch`` 32, one thread and the subject's K
            unless given.
    """
    values: dict[str, Any] = {
        "spec": subject.strategy,
        "draft": materials().draft(subject, target_kind),
        "ctx": CTX_TOKENS,
        "batch": BATCH_ROWS,
        "threads": 1,
        "draft_max": draft_max(subject, target_kind),
    }
    values |= settings
    oracle = session_oracle(subject, target_kind, values["ctx"], values.get("ubatch") or values["batch"])
    script = None
    if scripted is not None:
        script = AcceptanceScript(
            lambda prompt, count: oracle.tokens(prompt, count, sampling), lengths_of(scripted), oracle.n_vocab
        )
    plugins = _WrappingPlugins(subject, script, on_drafter, on_spec)
    with open_session(
        model=materials().target(target_kind),
        plugins=cast("PowerPluginManager", cast("object", plugins)),
        **values,
    ) as session:
        yield session


def session_oracle(
    subject: ContractSubject, target_kind: str, ctx: int = CTX_TOKENS, chunk: int = BATCH_ROWS
) -> Oracle:
    """Return what plain decoding does in a session of that context and chunk size."""
    model = materials().model(subject, target_kind, load_nextn=False)
    settings = ContextSettings(ctx_tokens=ctx, batch_rows=chunk, threads=1)
    return materials().oracle(model, target_kind, False, settings)


def draft_max(subject: ContractSubject, target_kind: str) -> int:
    """Return the subject's K, or what its files allow where that is less."""
    most = subject_strategy(subject).most_drafts(*headers(subject, target_kind))
    return subject.draft_max if most is None else min(subject.draft_max, most)


def lengths_of(scripted: Literal["zero", "partial", "full"] | Lengths) -> Lengths:
    """Return how many drafts of a request shall be right."""
    if callable(scripted):
        return scripted
    if scripted == "partial":
        rng = random.Random(0)
        return lambda request: rng.randint(0, request.limit_tokens)
    full = scripted == "full"
    return lambda request: request.limit_tokens if full else 0


class _WrappingPlugins:
    """The subject's plugin and the backends, with the subject's drafter wrapped (``PowerPluginManager``)."""

    def __init__(
        self,
        subject: ContractSubject,
        script: AcceptanceScript | None,
        on_drafter: Callable[[Drafter], Drafter],
        on_spec: Callable[[StrategySpec], StrategySpec],
    ) -> None:
        self._plugins = subject_plugins(subject)
        self._script = script
        self._on_drafter = on_drafter
        self._on_spec = on_spec

    def negotiate(self, requested: str, target: GgufHeader, draft: GgufHeader | None) -> ResolvedStrategy:
        resolved = self._plugins.negotiate(requested, target, draft)
        if resolved.spec is None:
            return resolved
        spec = self._on_spec(resolved.spec)
        create = spec.create_drafter
        wrapped = attrs.evolve(spec, create_drafter=lambda context: self._wrap(create, context))
        return attrs.evolve(resolved, spec=wrapped)

    def draft_kind(self, requested: str) -> str | None:
        return self._plugins.draft_kind(requested)

    def validators(self) -> list[ArtifactValidator]:
        return self._plugins.validators()

    def backend(self) -> BackendSpec:
        return self._plugins.backend()

    def _wrap(self, create: Callable[[DrafterContext], Drafter], context: DrafterContext) -> Drafter:
        drafter = create(context)
        if self._script is not None:
            drafter = ScriptedDrafter(drafter, self._script)
        return self._on_drafter(drafter)
