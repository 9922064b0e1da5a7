"""TXN: a round is kept whole or not at all, wherever it stops."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_contract.assertions import check_that
from power_contract.bench import Bench
from power_contract.clauses import clause
from power_contract.histories import HistoryCounts
from power_contract.machines import run_histories
from power_contract.opening import open_bench
from power_contract.profiles import Profile
from power_contract.sessions import open_subject_session, session_oracle
from power_contract.spy import InjectedError, When
from power_contract.strategies import PROMPT
from power_contract.subject import ContractSubject
from power_core.errors import Cancelled, IntegrityError, StateError, TransactionAborted
from power_core.transaction import VerifyTransaction

FAULTS: tuple[tuple[str, str], ...] = (
    ("drafter", "checkpoint"),
    ("drafter", "propose"),
    ("drafter", "process"),
    ("drafter", "accept"),
    ("target", "evaluate"),
    ("target", "truncate"),
    ("sampler", "snapshot"),
    ("sampler", "sample"),
)
MARKS = ("drafter.checkpoint", "sampler.snapshot", "target.checkpoint")


@clause("TXN-01")
@pytest.mark.parametrize("slice_rows", [2, None], ids=["slices of two rows", "one slice"])
def test_the_steps_of_a_round_come_in_order(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, slice_rows: int | None
) -> None:
    with open_bench(subject, bench_kind, slice_rows=slice_rows, counts=histories) as bench:
        bench.start(bench.prompt())
        for right in range(bench.settings.draft_max + 1):
            since = len(bench.journal.calls)
            bench.round(right)
            steps = bench.journal.steps(since)
            order = [stage_of(step) for step in steps]
            in_order = order == sorted(order) and steps.count("drafter.propose") == 1
            check_that(
                in_order,
                "the steps of a round",
                expected="mark, propose, evaluate and draw, discard, process, accept",
                actual=" ".join(steps),
                history=bench.told,
            )
            check_that(steps[0] in MARKS, "the first step", expected="a mark", actual=steps[0], history=bench.told)
            check_draws(bench, steps)


def stage_of(step: str) -> int:
    """Return the place of a step in a round."""
    if step in MARKS:
        return 0
    stages = (
        "drafter.propose",
        "target.evaluate sampler.sample",
        "target.truncate",
        "drafter.process",
        "drafter.accept",
    )
    return next((place for place, names in enumerate(stages, 1) if step in names.split()), len(stages) + 1)


def check_draws(bench: Bench, steps: list[str]) -> None:
    """Require that every row was evaluated before it was drawn."""
    drawing = [step for step in steps if step in ("target.evaluate", "sampler.sample")]
    check_that(
        drawing[0] == "target.evaluate",
        "the first draw",
        expected="after an evaluation",
        actual=drawing,
        history=bench.told,
    )


@clause("TXN-02")
@pytest.mark.parametrize("reached", ["open", "proposed", "verified"])
def test_a_round_that_is_left_uncommitted_leaves_no_trace(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, reached: str
) -> None:
    with open_bench(subject, bench_kind, willing=True, counts=histories) as bench:
        line = bench.start(bench.prompt(33))
        for right in (0, bench.settings.draft_max, 1):
            bench.round(2)
            before = list(line.sequence.history)
            bench.plan(right)
            with bench.transaction() as transaction:
                if reached != "open":
                    transaction.propose(bench.request())
                if reached == "verified":
                    transaction.verify(lambda token: False)
            bench.told.append(f"left({reached})")
            bench.equal("the history", line.sequence.history, before)
            bench.equal("the state of the transaction", transaction.state.value, "rolled back")
            bench.check_drafter()
        bench.round(1)
        bench.check_history()
        bench.check_memory()
        bench.check_behaviour()


@clause("TXN-03")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("who_name", FAULTS, ids=".".join)
def test_a_failure_anywhere_returns_to_the_last_committed_round(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, who_name: tuple[str, str], when: When
) -> None:
    with open_bench(subject, bench_kind, slice_rows=3, willing=when == "after", counts=histories) as bench:
        line = bench.start(bench.prompt(33))
        struck = 0
        for right, nth in ((0, 1), (1, 1), (bench.settings.draft_max, 2), (2, 1)):
            before = list(line.sequence.history)
            bench.journal.arm(*who_name, when=when, nth=nth)
            try:
                bench.round(right)
            except (InjectedError, TransactionAborted):
                bench.told.append(f"fail({when} {'.'.join(who_name)})")
                bench.equal("the history", line.sequence.history, before)
                bench.check_drafter()
            struck += bench.journal.struck
            bench.journal.disarm()
            bench.round(1)
            bench.check_history()
            bench.check_memory()
        check_that(struck > 0, "the injected failures", expected="at least one", actual=struck)
        bench.check_drafter()
        bench.check_behaviour()


@clause("TXN-04")
@given(nodes=st.integers(0, 300), right=st.integers(0, 4))
def test_an_abort_inside_the_targets_compute_returns_to_the_last_committed_round(
    subject: ContractSubject, target_kind: str, nodes: int, right: int, histories: HistoryCounts
) -> None:
    with open_bench(subject, target_kind, counts=histories) as bench:
        line = bench.start(bench.prompt(33))
        bench.round(2)
        before = list(line.sequence.history)
        abort_target(bench, nodes)
        try:
            bench.round(min(right, bench.settings.draft_max))
        except Cancelled:
            bench.told.append(f"abort(target, {nodes} nodes)")
            bench.equal("the history", line.sequence.history, before)
        abort_target(bench, -1)
        bench.round(1)
        bench.check_history()
        bench.check_memory()
        bench.check_drafter()
        bench.check_behaviour()


def abort_target(bench: Bench, nodes: int) -> None:
    """Stop the target's next evaluation after so many graph nodes; -1 for never."""
    target: Any = bench.target
    target.abort_after(nodes)


@clause("TXN-05")
@given(nodes=st.integers(0, 60), feeding=st.booleans())
def test_an_abort_inside_the_drafters_compute_returns_to_the_last_committed_round(
    subject: ContractSubject, target_kind: str, nodes: int, feeding: bool, histories: HistoryCounts
) -> None:
    with open_bench(subject, target_kind, find_drafts=True, counts=histories) as bench:
        line = bench.start(bench.prompt(33))
        bench.round(2)
        before = list(line.sequence.history)
        check_that(bool(bench.draft_contexts), "the drafter's contexts", expected="at least one", actual=0)
        if feeding:
            abort_in_process(bench, nodes)
        else:
            bench.abort_drafts(nodes)
        try:
            bench.round(1)
        except Cancelled:
            bench.told.append(f"abort(drafter, {nodes} nodes, {'process' if feeding else 'propose'})")
            bench.equal("the history", line.sequence.history, before)
        bench.abort_drafts(-1)
        bench.check_drafter()
        bench.round(bench.settings.draft_max)
        bench.check_history()
        bench.check_drafter()


def abort_in_process(bench: Bench, nodes: int) -> None:
    """Arm the abort only once the drafter is fed, after it has proposed."""
    process = bench.drafter.process

    def aborted(rows: Any) -> None:
        bench.drafter.process = process  # type: ignore[method-assign]
        bench.abort_drafts(nodes)
        process(rows)

    bench.drafter.process = aborted  # type: ignore[method-assign]


@clause("TXN-06")
def test_a_second_transaction_on_a_sequence_is_refused(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(33))
        bench.plan(1)
        with bench.transaction() as outer:
            outer.propose(bench.request())
            with pytest.raises(StateError) as caught, bench.transaction():
                pass
            check_that("proposed" in str(caught.value), "the error", expected="the outer state", actual=caught.value)
            block = outer.verify(lambda token: False)
            outer.commit()
        bench.equal("the accepted tokens", block.accepted_tokens, 1)
        bench.check_history()
        bench.check_drafter()


@clause("TXN-07")
def test_steps_out_of_order_and_finished_transactions_are_refused(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(33))
        bench.plan(1)
        with bench.transaction() as transaction:
            refused(transaction, bench, "verify", "commit")
            transaction.propose(bench.request())
            refused(transaction, bench, "propose", "commit")
            transaction.verify(lambda token: False)
            refused(transaction, bench, "propose", "verify")
            transaction.commit()
            refused(transaction, bench, "propose", "verify", "commit")
        transaction.rollback()
        bench.equal("the state of the transaction", transaction.state.value, "committed")
        bench.check_history()
        with bench.transaction() as left:
            pass
        refused(left, bench, "propose", "verify", "commit")
        bench.round(2)
        bench.check_history()


def refused(transaction: VerifyTransaction, bench: Bench, *operations: str) -> None:
    """Require that these steps raise ``StateError`` and name the state."""
    arguments: dict[str, tuple[Any, ...]] = {
        "propose": (bench.request(),),
        "verify": (lambda token: False,),
        "commit": (),
    }
    for operation in operations:
        state = transaction.state.value
        with pytest.raises(StateError) as caught:
            getattr(transaction, operation)(*arguments[operation])
        check_that(state in str(caught.value), f"the error of {operation}", expected=state, actual=caught.value)
        bench.equal("the state of the transaction", transaction.state.value, state)


@clause("TXN-08")
def test_a_checkpoint_of_the_drafter_is_exact_and_can_be_restored_twice(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, willing=True, counts=histories) as bench:
        line = bench.start(bench.prompt(50))
        bench.round(2)
        history = list(line.sequence.history)
        drafter, target, sampler = bench.own.checkpoint(), bench.target.checkpoint(), line.sampler.snapshot()
        for plans in ((0,), (bench.settings.draft_max, 1, 0)):
            for plan in plans:
                bench.round(plan)
            bench.own_proposal()
            bench.own.restore(drafter)
            bench.target.restore(target)
            line.sampler.restore(sampler)
            line.sequence.history[:] = history
            bench.told.append("restore()")
            bench.check_memory()
            bench.check_drafter()
        bench.round(1)
        bench.check_history()
        bench.check_behaviour()


@clause("TXN-09")
def test_any_history_leaves_what_plain_decoding_leaves(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, profile: Profile
) -> None:
    run_histories(subject, bench_kind, histories, profile)


@clause("TXN-10")
@pytest.mark.parametrize("scripted", [None, "partial", "full"])
def test_a_cancelled_request_continues_from_its_last_committed_token(
    subject: ContractSubject, target_kind: str, scripted: Any
) -> None:
    expected = list(session_oracle(subject, target_kind).tokens(PROMPT, 24))
    with open_subject_session(subject, target_kind, scripted=scripted) as session:
        for taken in (1, 2, 5, 11):
            generation = session.generate(PROMPT, max_tokens=24)
            found = [next(generation).token for _ in range(taken)]
            generation.cancel()
            found += [piece.token for piece in generation if piece.token is not None]
            check_that(
                generation.finish_reason == "cancelled",
                "the finish reason",
                expected="cancelled",
                actual=generation.finish_reason,
            )
            found += session.resume(max_tokens=24 - len(found)).result().tokens
            check_that(
                found == expected, f"the output when cancelled after {taken} tokens", expected=expected, actual=found
            )


@clause("TXN-11")
def test_a_rollback_that_fails_is_said_and_finished_before_the_next_round(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(33))
        bench.round(2)
        bench.plan(1)
        bench.journal.arm("drafter", "restore")
        transaction = bench.transaction()
        transaction.__enter__()
        transaction.propose(bench.request())
        transaction.verify(lambda token: False)
        with pytest.raises(IntegrityError):
            transaction.__exit__(None, None, None)
        bench.told.append("left(verified), its rollback failed")
        bench.equal("the state of the transaction", transaction.state.value, "rolling back")
        bench.round(bench.settings.draft_max)
        bench.check_history()
        bench.check_memory()
        bench.check_drafter()


class EveryRowAgain:
    """Stands for a guarantor that trusts no choice at a row that was computed with others."""

    guard_threshold = math.inf

    def cover(self, sequence: object, report: object) -> None:
        """Measure nothing."""


@clause("TXN-12")
@pytest.mark.parametrize("slice_rows", [2, None], ids=["slices of two rows", "one slice"])
def test_rows_that_are_decided_again_leave_the_same_state(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, slice_rows: int | None
) -> None:
    with open_bench(subject, bench_kind, slice_rows=slice_rows, counts=histories) as bench:
        line = bench.start(bench.prompt(33))
        guarantor: Any = EveryRowAgain()
        line.parts.guarantor = guarantor
        for right in (1, 0, bench.settings.draft_max, 2):
            bench.round(right)
            bench.check_history()
            bench.check_memory()
            bench.check_drafter()
        bench.equal("rows were decided again", line.report.guarded_rows > 0, True)
        bench.check_behaviour()
