"""SCHED: draft widths, budgets, the end of the context, and the K > S guard."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from power_contract.assertions import check_equal, check_that
from power_contract.calls import watched_evaluations, watched_schedulers
from power_contract.clauses import clause
from power_contract.loading import subject_strategy
from power_contract.materials import headers
from power_contract.prompts import repeating_prompt
from power_contract.sessions import Scripted, draft_max, open_subject_session, session_oracle
from power_contract.subject import ContractSubject
from power_contract.trace import Traced
from power_core.errors import ConfigError

PROMPT = repeating_prompt(5, 20)
SMALL_CTX = 48
MANY_TOKENS = 60
SCHEDULERS = ("fixed", "adaptive", "goodput")
MOST_DRAFTS = 64
SCRIPTS: tuple[Scripted, ...] = (None, "partial", "full")


@clause("SCHED-01")
@pytest.mark.parametrize("scripted", [None, "full"])
def test_no_round_asks_for_more_than_fits(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    for scheduler in subject_strategy(subject).schedulers:
        traced = Traced()
        settings: dict[str, Any] = {"ctx": SMALL_CTX, "scheduler": scheduler}
        with open_subject_session(subject, target_kind, scripted=scripted, on_drafter=traced, **settings) as session:
            for max_tokens in (2 * draft_max(subject, target_kind) + 3, SMALL_CTX):
                session.generate(PROMPT, max_tokens=max_tokens).result()
                check_limits(traced, draft_max(subject, target_kind), max_tokens, scheduler)


def check_limits(traced: Traced, most: int, max_tokens: int, scheduler: str) -> None:
    """Require limits within K, what remains of the request, and what remains of the context."""
    requests = [each.request for each in traced.rounds if each.request is not None]
    check_that(bool(requests) or scheduler == "goodput", "requests to the drafter", expected="some", actual="none")
    for request in requests:
        emitted = request.n_past - len(PROMPT) + 1
        bound = min(most, max_tokens - emitted - 1, SMALL_CTX - request.n_past - 1)
        what = f"the limit of scheduler {scheduler} at position {request.n_past}, {max_tokens} tokens wanted"
        check_that(1 <= request.limit_tokens <= bound, what, expected=f"1 to {bound}", actual=request.limit_tokens)


@clause("SCHED-02")
@pytest.mark.parametrize("scripted", [None, "full"])
def test_every_budget_is_met_to_the_token(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    most = 3 * draft_max(subject, target_kind)
    truth = session_oracle(subject, target_kind).tokens(PROMPT, most)
    with open_subject_session(subject, target_kind, scripted=scripted) as session:
        for budget in range(1, most + 1):
            result = session.generate(PROMPT, max_tokens=budget).result()
            check_equal(f"the tokens of a budget of {budget}", list(result.tokens), list(truth[:budget]))
            check_equal(f"the end of a budget of {budget}", result.finish_reason, "length")


@clause("SCHED-03")
@pytest.mark.parametrize("scripted", SCRIPTS)
def test_a_full_context_ends_the_request(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    truth = session_oracle(subject, target_kind, SMALL_CTX).tokens(PROMPT, SMALL_CTX)
    with (
        open_subject_session(subject, target_kind, scripted=scripted, ctx=SMALL_CTX) as session,
        watched_evaluations(session.context) as evaluations,
    ):
        result = session.generate(PROMPT, max_tokens=10 * SMALL_CTX).result()
    check_equal("the end of a request that fills the context", result.finish_reason, "context_full")
    check_equal("the tokens of a request that fills the context", list(result.tokens), list(truth))
    check_equal("the last position that was evaluated", evaluations.highest_pos, SMALL_CTX - 1)


@clause("SCHED-04")
@pytest.mark.parametrize("scripted", ["zero", "partial"])
def test_at_most_one_round_is_replayed(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    traced, window = Traced(), draft_max(subject, target_kind) - 1
    with open_subject_session(
        subject, target_kind, scripted=scripted, on_drafter=traced, snapshots=window, verify_rows="all"
    ) as session:
        recurrent = session.context.recurrent
        report = session.generate(PROMPT, max_tokens=40).result().report
    wide = [at for at, each in enumerate(traced.rounds) if len(each.proposed) - (each.kept_rows - 1) > window]
    check_equal("rounds whose rejected suffix was wider than S", report.replays, len(wide) if recurrent else 0)
    if not recurrent:
        return
    check_that(len(wide) <= 1, "rounds that were replayed", expected="at most one", actual=len(wide))
    check_that(scripted != "zero" or bool(wide), "rounds that were replayed", expected="one", actual="none")
    for each in traced.rounds[wide[0] + 1 :] if wide else ():
        limit = each.request.limit_tokens if each.request is not None else 0
        check_that(limit <= window, "the limit after a replay", expected=f"at most S = {window}", actual=limit)


@clause("SCHED-05")
@pytest.mark.parametrize("scripted", [None, "partial"])
def test_shorter_proposals_are_dropped_whole(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    traced, least = Traced(), 2
    truth = session_oracle(subject, target_kind).tokens(PROMPT, 30)
    with open_subject_session(
        subject, target_kind, scripted=scripted, on_drafter=traced, draft_min=least, draft_max=least + 1
    ) as session:
        result = session.generate(PROMPT, max_tokens=30).result()
    check_equal("the output with draft_min", list(result.tokens), list(truth))
    for each in traced.rounds:
        if each.request is not None:
            check_that(each.request.limit_tokens >= least, "a limit", expected=f"at least {least}", actual=each.request)
            check_equal("draft_min as the drafter learns it", each.request.min_tokens, least)
    verified = [each for each in traced.rounds if len(each.proposed) >= least]
    check_equal(
        "drafted tokens in the report", result.report.drafted_tokens, sum(len(each.proposed) for each in verified)
    )
    told = [each.accepted is not None for each in traced.rounds]
    check_equal("rounds whose outcome the drafter was told", told, [each in verified for each in traced.rounds])


@clause("SCHED-06")
def test_k_is_in_force_as_asked_or_refused(subject: ContractSubject, target_kind: str) -> None:
    spec = subject_strategy(subject)
    most = spec.most_drafts(*headers(subject, target_kind))
    for asked in {1, draft_max(subject, target_kind), most or MOST_DRAFTS}:
        with open_subject_session(subject, target_kind, draft_max=asked, batch=MOST_DRAFTS + 2) as session:
            check_equal(f"K in force when {asked} is asked for", session.plan.draft_max, asked)
    with open_subject_session(subject, target_kind, draft_max=None) as session:
        default = spec.default_draft_max_tokens
        check_equal("K in force when none is asked for", session.plan.draft_max, min(default, most or default))
    if most is not None and most < MOST_DRAFTS:
        with pytest.raises(ConfigError) as caught, open_subject_session(subject, target_kind, draft_max=most + 1):
            pass
        check_equal(f"the field that the refusal of K = {most + 1} names", caught.value.field, "draft_max")


@clause("SCHED-07")
@pytest.mark.parametrize("scripted", [None, "zero", "partial"])
def test_no_scheduler_changes_the_output(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    truth = list(session_oracle(subject, target_kind).tokens(PROMPT, MANY_TOKENS))
    for scheduler in subject_strategy(subject).schedulers:
        with open_subject_session(subject, target_kind, scripted=scripted, scheduler=scheduler) as session:
            for request in (1, 2):
                result = session.generate(PROMPT, max_tokens=MANY_TOKENS).result()
                check_equal(f"the output of request {request} with scheduler {scheduler}", list(result.tokens), truth)


@clause("SCHED-08")
@pytest.mark.parametrize("scripted", [None, "partial"])
def test_a_scheduler_learns_of_each_committed_round_once(
    subject: ContractSubject, target_kind: str, scripted: Scripted
) -> None:
    for scheduler in subject_strategy(subject).schedulers:
        traced = Traced()
        settings: dict[str, Any] = {"scheduler": scheduler, "on_drafter": traced, "scripted": scripted}
        with watched_schedulers() as outcomes, open_subject_session(subject, target_kind, **settings) as session:
            request = session.generate(PROMPT, max_tokens=MANY_TOKENS)
            for _ in range(9):
                next(request)
            traced.drafter.on_propose = request.cancel
            reports = [request.result().report]
            traced.drafter.on_propose = lambda: None
            reports.append(session.resume(max_tokens=MANY_TOKENS).result().report)
        told = f"scheduler {scheduler}"
        check_equal(f"rounds that {told} learned of", len(outcomes), sum(report.rounds for report in reports))
        asked = [(each.request, len(each.proposed), each.accepted or 0) for each in traced.rounds]
        expected = [(request.limit_tokens, *counts) for request, *counts in asked if request is not None]
        found = [(each.asked_tokens, each.drafted_tokens, each.accepted_tokens) for each in outcomes]
        found = [each for each in found if each[0]]
        check_equal(f"asked, drafted, accepted of the rounds that drafted, as {told} learned them", found, expected)


@clause("SCHED-09")
def test_a_scheduler_that_the_strategy_does_not_have_is_refused(subject: ContractSubject, target_kind: str) -> None:
    for only in subject_strategy(subject).schedulers:
        for asked in SCHEDULERS:
            if asked == only:
                continue
            field = refused_field(subject, target_kind, asked, only)
            check_equal(f"the field that the refusal of {asked} names, with {only} registered", field, "scheduler")


def refused_field(subject: ContractSubject, target_kind: str, asked: str, only: str) -> object:
    """Ask a strategy that registered one scheduler for another; return the field that the refusal names."""
    settings: dict[str, Any] = {"scheduler": asked, "on_spec": lambda spec: attrs.evolve(spec, schedulers=(only,))}
    try:
        with open_subject_session(subject, target_kind, **settings):
            return "no refusal"
    except ConfigError as error:
        return error.field
