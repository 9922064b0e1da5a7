"""Histories of rounds: begin, propose, verify, commit, leave, fail, abort, checkpoint, restore, close, in any order.

After each step the output is plain decoding's; at the end the memories are those of a replay of the committed tokens.
In half of the histories the target is willing: it can be made to draw the plugin's own drafts, and else repeats the
prompt; the output is then what it drew.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from power_contract.bench import Bench
from power_contract.histories import HistoryCounts
from power_contract.opening import open_bench
from power_contract.profiles import Profile
from power_contract.spy import InjectedError
from power_contract.strategies import PROMPT_LENGTHS
from power_contract.subject import ContractSubject
from power_core.drafter import Proposal
from power_core.errors import Cancelled, TransactionAborted
from power_core.transaction import VerifyTransaction
from power_core.verify import VerifiedBlock

CTX_TOKENS = 192
WHO = ("target.evaluate", "target.truncate", "sampler.sample", "drafter.propose", "drafter.process", "drafter.accept")
DIRECTED = ((0, 0), (1, None), (4, 4), (0, 4, 1), (None, 0, 2))
"""Acceptance of some rounds in turn, run before the drawn histories so that every length really occurs."""


class HistoryMachine(RuleBasedStateMachine):
    """One bench and what may happen to it. ``run_histories`` makes a fresh subclass for every subject and target."""

    subject: ContractSubject
    target_kind: str
    counts: HistoryCounts

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.bench: Bench = None  # type: ignore[assignment]
        self._transaction: VerifyTransaction | None = None
        self._proposal = Proposal()
        self._block: VerifiedBlock | None = None
        self._marks: tuple[Any, Any, Any, list[int]] | None = None
        self._outer_error = sys.exception()

    # ---------------------------------------------------------------------------------------------------------- rules

    @initialize(slice_rows=st.integers(1, 5), length=st.sampled_from(PROMPT_LENGTHS), willing=st.booleans())
    def open(self, slice_rows: int, length: int, willing: bool) -> None:
        self._slice_rows, self._willing = slice_rows, willing
        self._reopen()
        self._begin(length, 0)

    @rule(length=st.sampled_from(PROMPT_LENGTHS), salt=st.integers(0, 9))
    def begin(self, length: int, salt: int) -> None:
        self._leave()
        self._begin(length, salt)

    @precondition(lambda self: self._transaction is None and self._has_room())
    @rule(right=st.one_of(st.integers(0, 4), st.none()), limit=st.integers(1, 4), follow=st.integers(0, 4))
    def propose(self, right: int | None, limit: int, follow: int) -> None:
        self.bench.plan(right)
        if self._willing:
            self.bench.follow(follow)
        transaction = self.bench.transaction()
        transaction.__enter__()
        self._transaction, self._block = transaction, None
        self._proposal = transaction.propose(self.bench.request(min(limit, self.bench.settings.draft_max)))
        self.bench.told.append(f"propose({len(self._proposal.tokens)})")

    @precondition(lambda self: self._transaction is not None and self._block is None)
    @rule()
    def verify(self) -> None:
        assert self._transaction is not None
        self._block = self._transaction.verify(lambda token: False)
        self.bench.told.append(f"verify({self._block.accepted_tokens} accepted)")

    @precondition(lambda self: self._block is not None)
    @rule()
    def commit(self) -> None:
        assert self._transaction is not None
        assert self._block is not None
        self._transaction.commit()
        self._transaction.__exit__(None, None, None)
        self.bench.count(len(self._proposal.tokens), self._block.accepted_tokens)
        self._transaction = self._block = None

    @precondition(lambda self: self._transaction is not None)
    @rule()
    def cancel(self) -> None:
        self._leave()

    @precondition(lambda self: self._transaction is None and self._has_room())
    @rule(who=st.sampled_from(WHO), when=st.sampled_from(("before", "after")), right=st.integers(0, 4))
    def fail_inside(self, who: str, when: Any, right: int) -> None:
        self._drop_marks_before_a_rebuild()
        self.bench.journal.arm(*who.split("."), when=when)
        try:
            self.bench.round(min(right, self.bench.settings.draft_max))
        except (InjectedError, TransactionAborted):
            self.bench.told.append(f"fail({when} {who})")
        self.bench.journal.disarm()

    @precondition(lambda self: self._transaction is None and self._has_room() and "native" in self.subject.features)
    @rule(nodes=st.integers(0, 200), in_target=st.booleans(), right=st.integers(0, 4))
    def abort_inside(self, nodes: int, in_target: bool, right: int) -> None:
        self._drop_marks_before_a_rebuild()
        who = "target" if in_target else "drafter"
        contexts: list[Any] = [self.bench.target] if in_target else self.bench.draft_contexts
        for context in contexts:
            context.abort_after(nodes)
        try:
            self.bench.round(min(right, self.bench.settings.draft_max))
        except Cancelled:
            self.bench.told.append(f"abort({who}, {nodes} nodes)")
        for context in contexts:
            context.abort_after(-1)

    @precondition(lambda self: self._transaction is None and self.bench.line().sequence.clean)
    @rule()
    def checkpoint(self) -> None:
        history = list(self.bench.line().sequence.history)
        sampler = self.bench.line().sampler
        self._marks = self.bench.own.checkpoint(), self.bench.target.checkpoint(), sampler.snapshot(), history
        self.bench.told.append("checkpoint()")

    @precondition(lambda self: self._transaction is None and self._marks is not None)
    @rule()
    def restore(self) -> None:
        assert self._marks is not None
        drafter, target, sampler, history = self._marks
        self.bench.own.restore(drafter)
        self.bench.target.restore(target)
        self.bench.line().sampler.restore(sampler)
        sequence = self.bench.line().sequence
        sequence.history, sequence.clean = list(history), True
        self.bench.told.append("restore()")

    @precondition(lambda self: self._transaction is None)
    @rule()
    def compare_drafts(self) -> None:
        self.bench.check_drafter()

    @precondition(lambda self: self._transaction is None)
    @rule(length=st.sampled_from(PROMPT_LENGTHS))
    def close(self, length: int) -> None:
        self._reopen()
        self._begin(length, 3)

    # ---------------------------------------------------------------------------------------------------- what holds

    @invariant()
    def output_is_plain_decodings(self) -> None:
        if self.bench is not None:
            self.bench.check_history()

    @invariant()
    def memory_holds_the_committed_tokens(self) -> None:
        if self.bench is not None and self._transaction is None and self.bench.line().sequence.clean:
            self.bench.check_memory()

    def teardown(self) -> None:
        """End the history with a round, then compare drafter and memory with fresh ones, unless a step failed."""
        try:
            if self.bench is not None and sys.exception() is self._outer_error:
                self._end()
        finally:
            self._stack.close()

    # -------------------------------------------------------------------------------------------------------- private

    def _end(self) -> None:
        self._leave()
        if self._has_room():
            self.bench.round(1)
            self.bench.check_history()
            self.bench.check_drafter()
            self.bench.check_behaviour()

    def _drop_marks_before_a_rebuild(self) -> None:
        """A rebuild that is stopped leaves no keys and values before a checkpoint, which holds none itself."""
        if not self.bench.line().sequence.clean:
            self._marks = None

    def _reopen(self) -> None:
        self._stack.close()
        opening = open_bench(
            self.subject,
            self.target_kind,
            ctx=CTX_TOKENS,
            slice_rows=self._slice_rows,
            willing=self._willing,
            counts=self.counts,
            find_drafts="native" in self.subject.features,
        )
        self.bench = self._stack.enter_context(opening)

    def _begin(self, length: int, salt: int) -> None:
        self._marks = None
        self.bench.start(self.bench.prompt(length, salt))

    def _leave(self) -> None:
        if self._transaction is not None:
            self._transaction.__exit__(None, None, None)
            self.bench.told.append("cancel()")
        self._transaction = self._block = None

    def _has_room(self) -> bool:
        room = CTX_TOKENS - self.bench.line().sequence.committed_tokens
        return room > 2 * self.bench.settings.draft_max


def run_histories(subject: ContractSubject, target_kind: str, counts: HistoryCounts, profile: Profile) -> None:
    """Run the directed histories, then drawn ones."""
    for plans in DIRECTED:
        run_directed(subject, target_kind, plans, counts)
    name = f"HistoryMachine_{subject.strategy}_{target_kind}".replace("-", "_")
    values = {"subject": subject, "target_kind": target_kind, "counts": counts}
    machine = type(name, (HistoryMachine,), values)
    sizes = settings(max_examples=profile.histories, stateful_step_count=profile.history_steps)
    run_state_machine_as_test(machine, settings=sizes)


def run_directed(
    subject: ContractSubject, target_kind: str, plans: tuple[int | None, ...], counts: HistoryCounts
) -> None:
    """Run rounds of these acceptances and compare everything."""
    with open_bench(subject, target_kind, counts=counts) as bench:
        bench.start(bench.prompt(33))
        for plan in plans:
            bench.round(None if plan is None else min(plan, bench.settings.draft_max))
        bench.check_history()
        bench.check_memory()
        bench.check_drafter()
        bench.check_behaviour()
