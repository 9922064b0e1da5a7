"""How a fault is planted: in this process, for the time of one run, and taken out again."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs

from power_contract.subject import ContractSubject, find_subject
from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal
from power_core.plugins import StrategySpec, hookimpl
from power_core.tokens import CommittedRows, SeqId, TokenId

Plant = Callable[[], AbstractContextManager[None]]
MUTANTS: dict[str, Mutant] = {}


@attrs.frozen(kw_only=True)
class Mutant:
    """One fault.

    Attributes:
        name: Unique kebab-case name.
        sentence: What is wrong.
        aim: The clause that is there to find it; others may trip too.
        plugin: Short name of our plugin that the kit runs on: ``ngram``, ``mtp``, ``dflash``, ``dflash2``, ``dspark``.
        kinds: Tiny targets that the fault is looked for on.
        plant: Plants the fault and takes it out.
        change: Changes what the subject declares.
    """

    name: str
    sentence: str
    aim: str
    plugin: str
    kinds: tuple[str, ...]
    plant: Plant
    change: Callable[[ContractSubject], ContractSubject]

    def subject(self) -> ContractSubject:
        """Return what the kit runs on."""
        return self.change(self.whole_subject())

    def whole_subject(self) -> ContractSubject:
        """Return the same without the fault."""
        return attrs.evolve(find_subject(f"power_{self.plugin}.contract:SUBJECT"), target_kinds=self.kinds)


def mutant(
    aim: str,
    plugin: str,
    kinds: tuple[str, ...] = ("hybrid",),
    change: Callable[[ContractSubject], ContractSubject] = lambda subject: subject,
) -> Callable[[Callable[[], Iterator[None]]], Callable[[], Iterator[None]]]:
    """Register a generator function that plants a fault, yields and takes it out; its docstring is the sentence."""

    def register(planting: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
        name = planting.__name__.replace("_", "-")
        assert name not in MUTANTS, name
        MUTANTS[name] = Mutant(
            name=name,
            sentence=(planting.__doc__ or "").strip(),
            aim=aim,
            plugin=plugin,
            kinds=kinds,
            plant=contextmanager(planting),
            change=change,
        )
        return planting

    return register


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute of a module or class another value for a while."""
    own = name in vars(owner)
    original = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)


def imported(plugin: str, module: str) -> Any:
    """Return a module of one of our plugins."""
    return importlib.import_module(f"power_{plugin}.{module}")


@contextmanager
def changed_specs(plugin: str, change: Callable[[StrategySpec], StrategySpec]) -> Iterator[None]:
    """Change what the plugin registers."""
    module = imported(plugin, "plugin")
    original = module.power_strategies

    @hookimpl
    def power_strategies() -> Iterator[StrategySpec]:
        return map(change, original())

    with replaced(module, "power_strategies", power_strategies):
        yield


def wrapped_drafter(plugin: str, wrap: Callable[[Drafter], Drafter]) -> AbstractContextManager[None]:
    """Wrap every drafter that the plugin makes."""

    def change(spec: StrategySpec) -> StrategySpec:
        return attrs.evolve(spec, create_drafter=lambda context: wrap(spec.create_drafter(context)))

    return changed_specs(plugin, change)


class Passing:
    """Passes every call of a drafter on; a mutant overrides the one that it breaks."""

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def begin(self, prompt: list[TokenId], *, seq_id: SeqId = 0) -> None:
        self.inner.begin(prompt, seq_id=seq_id)

    def process(self, rows: CommittedRows) -> None:
        self.inner.process(rows)

    def propose(self, request: DraftRequest) -> Proposal:
        return self.inner.propose(request)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        self.inner.accept(accepted_tokens, seq_id=seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> DrafterCheckpoint:
        return self.inner.checkpoint(seq_id=seq_id)

    def restore(self, checkpoint: DrafterCheckpoint, *, seq_id: SeqId = 0) -> None:
        self.inner.restore(checkpoint, seq_id=seq_id)

    def close(self) -> None:
        self.inner.close()
