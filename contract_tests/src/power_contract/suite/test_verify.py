"""VERIFY: the longest prefix that the target itself would emit, one more token of its own, and nothing else."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_contract.assertions import check_equal, check_that
from power_contract.bench import Bench
from power_contract.clauses import clause
from power_contract.comparing import shown
from power_contract.histories import HistoryCounts
from power_contract.noise import noisy_rows
from power_contract.opening import open_bench
from power_contract.sessions import Scripted, open_subject_session, session_oracle
from power_contract.strategies import PROMPT, SHORT_PROMPT
from power_contract.subject import ContractSubject
from power_contract.trace import TracingDrafter, outcome
from power_core.drafter import Drafter, DraftRequest, Proposal
from power_core.errors import PluginContractError
from power_core.session import Session

TOKENS = 40
NOISE = 0.25
"""As much as one row in three needs to choose another token."""


@clause("VERIFY-01")
def test_the_longest_prefix_that_the_target_confirms_is_accepted(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        line = bench.start(bench.prompt())
        for right in range(bench.settings.draft_max + 1):
            at = len(line.generated)
            block = bench.round(right)
            bench.equal("the accepted tokens", block.accepted_tokens, right)
            expected = list(bench.truth(line.prompt, at + right + 1)[at:])
            bench.equal("the emitted tokens", list(block.emitted), expected)
            bench.check_history()


@clause("VERIFY-02")
def test_a_correction_is_the_targets_token_and_no_accepted_one(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        line = bench.start(bench.prompt())
        most, accepted = bench.settings.draft_max, 0
        for right in (0, most - 1, 1):
            block = bench.round(right)
            accepted += right
            bench.equal("the ending", block.ending, "correction")
            bench.equal("the correction", block.emitted[-1], bench.truth(line.prompt, len(line.generated))[-1])
            bench.equal("the accepted tokens in the report", line.report.accepted_tokens, accepted)
        bench.equal("the drafted tokens in the report", line.report.drafted_tokens, 3 * most)


@clause("VERIFY-03")
def test_full_acceptance_adds_one_token_of_the_target(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt())
        for limit in range(1, bench.settings.draft_max + 1):
            block = bench.round(limit, limit=limit)
            bench.equal("the ending", block.ending, "bonus")
            bench.equal("the number of emitted tokens", len(block.emitted), limit + 1)
            bench.check_history()


@clause("VERIFY-04")
def test_nothing_is_emitted_after_an_accepted_token_that_ends(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        most = bench.settings.draft_max
        for place in range(most):
            line = bench.start(bench.prompt(33))
            bench.round(1)
            at = len(line.generated)
            following = bench.truth(line.prompt, at + most)[at:]
            if following[place] in following[:place]:
                continue
            block = bench.round(most, is_terminal=following[place].__eq__)
            bench.equal("the ending", block.ending, "terminal")
            bench.equal("the emitted tokens", list(block.emitted), list(following[: place + 1]))
            bench.check_memory()
            bench.round(2)  # the token that ended is the anchor of a continued request
            bench.check_history()
            bench.check_drafter()


@clause("VERIFY-05")
@pytest.mark.parametrize("slice_rows", [1, 2, None], ids=["rows one by one", "slices of two rows", "one slice"])
def test_rows_are_drawn_once_in_order_and_none_after_the_first_mismatch(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, slice_rows: int | None
) -> None:
    with open_bench(subject, bench_kind, slice_rows=slice_rows, counts=histories) as bench:
        bench.start(bench.prompt())
        width, most = bench.settings.slice_rows, bench.settings.draft_max
        for right in range(most + 1):
            since = len(bench.journal.calls)
            bench.round(right)
            calls = bench.journal.calls[since:]
            drawn = [call.arguments[0] for call in calls if str(call) == "sampler.sample"]
            rows = [len(call.arguments[0][0].tokens) for call in calls if str(call) == "target.evaluate"]
            bench.equal("the drawn rows of each slice", drawn, [row % width for row in range(right + 1)])
            needed = min((right // width + 1) * width, most + 1)
            bench.equal("the evaluated rows", sum(rows), needed)


@clause("VERIFY-06")
def test_a_round_without_drafts_is_a_plain_step(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(31))
        for step in range(5):
            before = bench.line().report.drafted_tokens
            if step % 2:
                block = bench.round(())
            else:
                with bench.transaction() as transaction:
                    transaction.propose(None)
                    block = transaction.verify(lambda token: False)
                    transaction.commit()
            bench.equal("the outcome", (block.accepted_tokens, len(block.emitted)), (0, 1))
            bench.equal("the drafted tokens in the report", bench.line().report.drafted_tokens, before)
        bench.check_history()
        bench.check_drafter()


@clause("VERIFY-07")
@given(data=st.data())
def test_no_drafts_however_bad_change_the_output(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, data: st.DataObject
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        line = bench.start(bench.prompt(33))
        tokens = st.lists(st.integers(0, bench.n_vocab - 1), max_size=bench.settings.draft_max)
        for plan in data.draw(st.lists(tokens, min_size=1, max_size=5), label="drafts"):
            bench.round(plan)
        bench.equal("the emitted tokens", line.generated, list(bench.truth(line.prompt, len(line.generated))))
        bench.check_behaviour()


MALFORMED: dict[str, Any] = {
    "one token too many": lambda bench: Proposal(tokens=[1] * (bench.settings.draft_max + 1)),
    "a token after the vocabulary": lambda bench: Proposal(tokens=[1, bench.n_vocab]),
    "a negative token": lambda bench: Proposal(tokens=[1, -1]),
    "no token id": lambda bench: Proposal(tokens=cast("list[int]", ["a"])),
    "another sequence": lambda bench: Proposal(seq_id=1, tokens=[1]),
    "no Proposal": lambda bench: [1, 2],
}


@clause("VERIFY-08")
@pytest.mark.parametrize("name", list(MALFORMED))
def test_a_malformed_proposal_is_refused_and_nothing_is_kept(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, name: str
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(33))
        bench.round(1)
        propose_malformed(bench, name)
        bench.check_history()
        bench.check_memory()
        bench.round(2)
        bench.check_history()
        bench.check_drafter()


def propose_malformed(bench: Bench, name: str) -> None:
    """Run a round in which the drafter's own proposal is replaced by a malformed one."""
    propose = bench.drafter.propose

    def malformed(request: Any) -> Any:
        propose(request)
        return MALFORMED[name](bench)

    bench.drafter.propose = malformed  # type: ignore[method-assign]
    evaluated = len([call for call in bench.journal.calls if str(call) == "target.evaluate"])
    try:
        with pytest.raises(PluginContractError) as caught:
            bench.round(1)
    finally:
        bench.drafter.propose = propose  # type: ignore[method-assign]
    bench.told.append(f"round({name})")
    check_that(bool(caught.value.hint), "the error", expected="what to do next", actual=caught.value)
    now = len([call for call in bench.journal.calls if str(call) == "target.evaluate"])
    bench.equal("the evaluations of the refused proposal", now - evaluated, 0)


@clause("VERIFY-09")
@pytest.mark.parametrize("scripted", [None, "zero", "partial", "full"])
@pytest.mark.parametrize(("verify_rows", "shape"), [(None, "early-stop"), (2, "fixed"), ("all", "early-stop")])
def test_a_sessions_output_is_plain_decodings(
    subject: ContractSubject, target_kind: str, scripted: Scripted, verify_rows: Any, shape: str
) -> None:
    settings: dict[str, Any] = {"verify_rows": verify_rows, "verify_shape": shape}
    with open_subject_session(subject, target_kind, scripted=scripted, **settings) as session:
        for prompt in (PROMPT, SHORT_PROMPT):
            found = list(session.generate(prompt, max_tokens=TOKENS).result().tokens)
            expected = list(session_oracle(subject, target_kind).tokens(prompt, TOKENS))
            check_that(found == expected, "the session's output", expected=expected, actual=found)


@clause("VERIFY-10")
def test_prompts_use_prefill_kernels_and_everything_later_decode_kernels(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, slice_rows=2, counts=histories) as bench:
        line = bench.start(bench.prompt(50))
        for right in (0, 2, bench.settings.draft_max):
            bench.round(right)
        with bench.transaction() as transaction:
            transaction.propose(bench.request())
            transaction.verify(lambda token: False)
        bench.round(1)
        for call in bench.journal.calls:
            if str(call) == "target.evaluate":
                start = call.arguments[0][0].start_pos
                wanted = "prefill" if start < len(line.prompt) else "decode"
                bench.equal(f"the kernels of the rows at {start}", call.keywords["kernels"], wanted)


@clause("VERIFY-11")
@pytest.mark.parametrize("exact_rows", [1, 2])
def test_noise_of_wide_evaluations_reaches_no_output(
    subject: ContractSubject, target_kind: str, exact_rows: int, unmeasured: None
) -> None:
    expected = list(session_oracle(subject, target_kind).tokens(PROMPT, TOKENS))
    with open_subject_session(subject, target_kind, spec="off", draft=None) as session:
        kind = type(session.context)
    for scripted in (None, "partial", "full"):
        settings: dict[str, Any] = {"scripted": scripted, "verify_rows": 4}
        with (
            noisy_rows(kind, exact_rows=exact_rows, size=NOISE),
            open_subject_session(subject, target_kind, **settings) as session,
        ):
            result = session.generate(PROMPT, max_tokens=TOKENS).result()
        check_equal(f"the output where {exact_rows + 1} rows are noisy", list(result.tokens), expected)
    again = result.report.guarded_rows
    check_that(exact_rows > 1 or again > 0, "rows that were decided again", expected="some", actual=again)


@clause("VERIFY-12")
@pytest.mark.parametrize(("verify_rows", "shape"), [(None, "early-stop"), (2, "fixed"), ("all", "early-stop")])
def test_rounds_in_one_call_leave_what_rounds_by_steps_leave(
    subject: ContractSubject, target_kind: str, verify_rows: Any, shape: str
) -> None:
    settings: dict[str, Any] = {"verify_rows": verify_rows, "verify_shape": shape}
    accounts = []
    for wrap in (lambda drafter: drafter, TracingDrafter):  # what is wrapped runs step by step
        drafters: list[Drafter] = []
        settings["on_drafter"] = lambda drafter, wrap=wrap, kept=drafters: kept.append(drafter) or wrap(drafter)
        with open_subject_session(subject, target_kind, **settings) as session:
            plain = account_of(session, drafters[0])
            stopped = account_of(session, drafters[0], stop_tokens=plain["tokens"][10:11])
            drawn = account_of(session, drafters[0], temperature=1.0, seed=7)
            accounts.append([plain, stopped, drawn])
    for at, (whole, steps) in enumerate(zip(*accounts, strict=True)):
        check_equal(f"request {at} of the drafter as it is, and of one that goes step by step", whole, steps)


def account_of(session: Session, drafter: Drafter, **request: Any) -> dict[str, Any]:
    """Run a request; return its outcome, the memory that it leaves, and what the drafter proposes then."""
    result = session.generate(PROMPT, max_tokens=TOKENS, **request).result()
    mark, drafts = drafter.checkpoint(), []
    for anchor in result.tokens[-3:]:
        proposal = drafter.propose(
            DraftRequest(n_past=len(session.committed_tokens), anchor=anchor, limit_tokens=session.plan.draft_max)
        )
        drafts.append(shown(proposal))
        drafter.restore(mark)
    memory = session.committed_tokens, session.context.check_integrity()
    return outcome(result) | {"calls": result.report.target_calls, "memory": memory, "drafts": drafts}
