"""Faults in what a plugin registers, and in what its subject declares. Areas INFO and LIFE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import attrs

from mutants.planting import Passing, changed_specs, imported, mutant, replaced, wrapped_drafter
from power_core import generation, session
from power_core.drafter import DraftRequest, Proposal
from power_core.plugins import API_VERSION, PluginInfo, hookimpl
from power_core.tokens import TokenId

# ----------------------------------------------------------------------------------------------------------------- INFO


@mutant("INFO-01", "ngram")
def api_of_a_later_core() -> Iterator[None]:
    """The plugin asks for a newer minor version of the API than the core has."""

    @hookimpl
    def power_plugin_info() -> PluginInfo:
        return PluginInfo(name="ngram", api=(API_VERSION[0], API_VERSION[1] + 1))

    with replaced(imported("ngram", "plugin"), "power_plugin_info", power_plugin_info):
        yield


@mutant("INFO-02", "ngram", change=lambda subject: attrs.evolve(subject, plugin="mutants.heavy_plugin"))
def heavy_plugin_module() -> Iterator[None]:
    """The plugin module imports numpy."""
    yield


@mutant("INFO-03", "ngram")
def strategy_under_another_name() -> Iterator[None]:
    """The strategy is registered under another name than the subject says."""
    with changed_specs("ngram", lambda spec: attrs.evolve(spec, name=f"my-{spec.name}", aliases=())):
        yield


@mutant(
    "INFO-04", "ngram", change=lambda subject: attrs.evolve(subject, features=subject.features - {"mutable-memory"})
)
def undeclared_memory() -> Iterator[None]:
    """The subject does not say that the drafter remembers what it was fed."""
    yield


@mutant("INFO-04", "ngram", change=lambda subject: attrs.evolve(subject, features=subject.features | {"confidence"}))
def undue_confidence() -> Iterator[None]:
    """The subject says that its drafts have confidences, and they have none."""
    yield


@mutant("INFO-04", "dspark", change=lambda subject: attrs.evolve(subject, features=subject.features - {"confidence"}))
def undeclared_confidence() -> Iterator[None]:
    """The subject does not say that its drafts have confidences."""
    yield


@mutant("INFO-05", "ngram")
def serves_any_core() -> Iterator[None]:
    """The factory does not look at the core's API version."""

    def careless(spec: Any) -> Any:
        return attrs.evolve(
            spec, create_drafter=lambda context: spec.create_drafter(attrs.evolve(context, api_version=API_VERSION))
        )

    with changed_specs("ngram", careless):
        yield


@mutant("INFO-06", "ngram")
def default_above_most_drafts() -> Iterator[None]:
    """The strategy's own K is more than its files allow."""
    with changed_specs("ngram", lambda spec: attrs.evolve(spec, most_drafts=lambda target, draft: 3)):
        yield


# ----------------------------------------------------------------------------------------------------------------- LIFE


@mutant("LIFE-01", "ngram")
def figures_outlive_their_request() -> Iterator[None]:
    """A request goes on counting in the report of the one before."""
    new_report, known = session.Session._new_report, {}

    def same(self: Any, prompt: Any) -> Any:
        return known.setdefault(self, new_report(self, prompt))

    with replaced(session.Session, "_new_report", same):
        yield


class ProposesLeftovers(Passing):
    """Keeps its last proposal, and answers with it first."""

    left: tuple[TokenId, ...] = ()

    def propose(self, request: DraftRequest) -> Proposal:
        proposal, left = self.inner.propose(request), self.left[: request.limit_tokens]
        self.left = () if left else tuple(proposal.tokens)
        return Proposal(seq_id=request.seq_id, tokens=left) if left else proposal


@mutant("LIFE-09", "dspark")
def proposals_outlive_their_request() -> Iterator[None]:
    """What was proposed last is proposed again, also in the next request."""
    with wrapped_drafter("dspark", ProposesLeftovers):
        yield


@mutant("LIFE-09", "ngram")
def table_outlives_its_request() -> Iterator[None]:
    """`begin` keeps the n-grams of the request before."""
    drafter = imported("ngram", "drafter").NgramDrafter
    begin = drafter.begin

    def keeping(self: Any, prompt: Any, *, seq_id: int = 0) -> None:
        before = self._sequences.get(seq_id)
        begin(self, prompt, seq_id=seq_id)
        if before is not None:
            self._sequences[seq_id].prompt._ends.update(before.prompt._ends)

    with replaced(drafter, "begin", keeping):
        yield


class ClosesOnce(Passing):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed twice")
        self.closed = True
        super().close()


@mutant("LIFE-02", "ngram")
def second_close_fails() -> Iterator[None]:
    """A second `close` raises."""
    with wrapped_drafter("ngram", ClosesOnce):
        yield


class NeverCloses(Passing):
    def close(self) -> None:
        pass


@mutant("LIFE-03", "ngram")
def close_does_nothing() -> Iterator[None]:
    """A closed drafter goes on working."""
    with wrapped_drafter("ngram", NeverCloses):
        yield


@mutant("NATIVE-01", "dspark")
def draft_context_leaks() -> Iterator[None]:
    """`close` frees neither the draft's context nor its model."""
    with wrapped_drafter("dspark", NeverCloses):
        yield


class BeginsByItself(Passing):
    def propose(self, request: Any) -> Any:
        try:
            return super().propose(request)
        except Exception:  # noqa: BLE001 - the fault
            self.inner.begin((), seq_id=request.seq_id)
            return super().propose(attrs.evolve(request, n_past=0))


@mutant("LIFE-04", "ngram")
def begins_by_itself() -> Iterator[None]:
    """A sequence that was not begun is begun in silence."""
    with wrapped_drafter("ngram", BeginsByItself):
        yield


@mutant("LIFE-05", "ngram")
def memory_at_class_level() -> Iterator[None]:
    """All drafters share one memory."""
    drafter = imported("ngram", "drafter").NgramDrafter
    init, shared = drafter.__init__, {}

    def sharing(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self._sequences = shared

    with replaced(drafter, "__init__", sharing), replaced(drafter, "close", lambda self: None):
        yield


@mutant("LIFE-06", "ngram")
def threads_queue_up() -> Iterator[None]:
    """A second thread gets into a session that is in use."""

    def ungated(self: Any) -> Any:
        return self._next_piece()

    def no_gate(gate: Any, operation: str) -> Any:
        return nullcontext()

    with replaced(session, "only_one_thread", no_gate), replaced(generation.Generation, "__next__", ungated):
        yield


@mutant("LIFE-07", "mtp")
def abort_outlives_its_request() -> Iterator[None]:
    """The abort of a cancelled request stops the next one too."""
    context = imported("native", "context").NativeContext
    with replaced(context, "clear_abort", lambda self: None):
        yield


class RemembersCancelled(Passing):
    """Does not go back when a round is left."""

    def restore(self, checkpoint: Any, *, seq_id: int = 0) -> None:
        pass


@mutant("TXN-08", "ngram")
def restore_does_nothing() -> Iterator[None]:
    """`restore` leaves everything as it is."""
    with wrapped_drafter("ngram", RemembersCancelled):
        yield


@mutant("LIFE-08", "dspark")
def target_closed_before_the_drafter() -> Iterator[None]:
    """The session closes the target's context before its drafter."""
    close = session.Session._close

    def hasty(self: Any) -> None:
        self.context.close()
        close(self)

    with replaced(session.Session, "_close", hasty):
        yield
