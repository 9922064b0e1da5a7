"""Costs that do not drift apart, and the drafter that is left out where nothing could pay."""

from __future__ import annotations

import random

import pytest
from core_sessions import N_VOCAB, PROMPT, open_fake_session

from power_core.scheduling import Decision, FixedScheduler, GoodputScheduler, RoundOutcome, SpeculationLedger
from power_core.scheduling.cost_model import LEAST_APART_ROUNDS, STALE_ROUNDS, SURE_SAMPLES, RoundCosts
from power_core.scheduling.goodput import FEW_ROUNDS, HOPELESS_REQUESTS
from power_core.testing.fakes import ScriptedDrafter, plain_decode

K = 7


def learn(costs, width, draft_ns, verify_ns, times=1):
    for _ in range(times):
        costs.learn(
            RoundOutcome(
                asked_tokens=width, drafted_tokens=width, accepted_tokens=0, draft_ns=draft_ns, verify_ns=verify_ns
            )
        )


def test_times_of_two_kinds_do_not_pull_pace_and_costs_apart():
    costs, rng = RoundCosts(K), random.Random(0)
    learn(costs, 0, 0, 1000, SURE_SAMPLES)
    for _ in range(STALE_ROUNDS - SURE_SAMPLES):  # now the drafter, now the target takes much longer
        slow = rng.random()
        learn(costs, 3, 400 if slow > 0.3 else 4000, 1000 if slow < 0.7 else 5000)
    assert 0.5 < costs.pace < 4.0
    assert 1400 * 0.6 < costs.draft_table()[3] + costs.verify_table([1.0] * (K + 1))[3] < 1400 * 1.6


@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_a_plain_round_after_drafts_teaches_nothing_and_the_next_one_does(factor):
    costs = RoundCosts(K)
    learn(costs, 0, 0, 1000, SURE_SAMPLES)
    learn(costs, 3, 100, 1500, SURE_SAMPLES)
    before = (costs.pace, costs.baseline)
    learn(costs, 0, 0, round(1000 * factor))
    assert (costs.pace, costs.baseline) == before
    learn(costs, 0, 0, round(1000 * factor))
    assert (costs.pace, costs.baseline) != before


def test_plain_rounds_are_measured_again_when_the_pace_changed_much():
    costs = RoundCosts(K)
    learn(costs, 0, 0, 1000, SURE_SAMPLES)
    learn(costs, 3, 100, 1500, LEAST_APART_ROUNDS + 1)
    assert costs.baseline_known
    learn(costs, 3, 200, 3000, LEAST_APART_ROUNDS)
    assert not costs.baseline_known
    learn(costs, 0, 0, 1200, SURE_SAMPLES + 1)
    assert costs.baseline_known
    assert costs.baseline * costs.pace == pytest.approx(1200)


def play(scheduler, rounds, plain_ns, drafted_ns):
    """Run rounds in which every draft is accepted; return the widths."""
    widths = []
    for at in range(rounds):
        width = scheduler.next_limit(10**6, 10**6)
        widths.append(width)
        scheduler.observe(
            RoundOutcome(
                asked_tokens=width,
                drafted_tokens=width,
                accepted_tokens=width,
                draft_ns=10 if width else 0,
                verify_ns=drafted_ns(at, width) if width else plain_ns,
            )
        )
    return widths


def test_drafting_that_gets_dear_with_the_context_ends():
    scheduler = GoodputScheduler(SpeculationLedger(K))
    widths = play(scheduler, 1200, 1000, lambda at, width: round((1000 + 100 * width) * (1 + at / 50)))
    assert max(widths[:60]) > 0
    assert widths[-200:].count(0) > 190


def dear(at, width):
    return 1000 + 2000 * width


def test_the_drafter_is_left_out_where_nothing_could_pay_and_tried_again_after_some_requests():
    decisions: list[Decision] = []
    ledger = SpeculationLedger(K)
    assert ledger.drafts_in_next_request()
    play(GoodputScheduler(ledger, on_decision=decisions.append), 400, 1000, dear)
    assert [each.reason for each in decisions if each.without_drafter] == ["hopeless"]
    assert decisions[-1].final
    assert [ledger.drafts_in_next_request() for _ in range(HOPELESS_REQUESTS + 1)] == [False] * HOPELESS_REQUESTS + [
        True
    ]
    assert ledger.hopeless_decisions == 0


def test_a_request_that_drafted_for_long_leaves_the_next_one_its_drafter():
    ledger = SpeculationLedger(K)
    widths = play(GoodputScheduler(ledger), 3000, 1000, lambda at, width: 1100 if at < 2 * FEW_ROUNDS else 60_000)
    assert widths[-1] == 0
    assert ledger.drafts_in_next_request()


def reasons_with_feeding(feed_ns: int) -> list[str]:
    """Rounds whose drafts are all wrong; the drafter takes in 64 rows once in 64 rounds."""
    decisions: list[Decision] = []
    scheduler = GoodputScheduler(SpeculationLedger(K), on_decision=decisions.append)
    for at in range(1, 1000):
        width = scheduler.next_limit(10**6, 10**6)
        draft_ns = 100 if width else (64 * feed_ns if at % 64 == 0 else 0)
        scheduler.observe(
            RoundOutcome(asked_tokens=width, drafted_tokens=width, accepted_tokens=0, draft_ns=draft_ns, verify_ns=1000)
        )
    return [each.reason for each in decisions if each.without_drafter]


def test_a_resting_drafter_that_is_dear_to_feed_is_left_out():
    assert reasons_with_feeding(300) == ["feeding"]
    assert reasons_with_feeding(4) == []


class GivesUp:
    """Drafts for two rounds, then says that the drafter is not needed any more."""

    def __init__(self, on_decision):
        self.rounds, self.on_decision = 0, on_decision

    def next_limit(self, remaining_tokens, remaining_context):
        return FixedScheduler(2 if self.rounds < 2 else 0).next_limit(remaining_tokens, remaining_context)

    def observe(self, outcome):
        self.rounds += 1
        if self.rounds == 2:
            self.on_decision(Decision(width_tokens=0, reason="hopeless", final=True, without_drafter=True))


def test_a_drafter_that_was_left_out_gets_no_rows_and_comes_back_with_the_next_request():
    drafter = ScriptedDrafter(lambda history, limit: [0] * limit)
    session = open_fake_session(drafter, scheduler="goodput")
    session._schedulers.open = GivesUp
    result = session.generate(PROMPT, max_tokens=30).result()
    assert list(result.tokens) == plain_decode(PROMPT, 30, N_VOCAB)
    fed = len(drafter.seen)
    assert len(PROMPT) <= fed < len(PROMPT) + 10
    resumed = session.resume(max_tokens=10).result()
    assert [each["reason"] for each in resumed.report.decisions] == ["no-drafter"]
    assert len(drafter.seen) == fed
    again = session.generate(PROMPT, max_tokens=30).result()
    assert again.tokens == result.tokens
    assert again.report.drafted_tokens > 0


def test_requests_without_the_drafter_do_not_begin_it():
    drafter = ScriptedDrafter(lambda history, limit: [0] * limit)
    session = open_fake_session(drafter, scheduler="goodput")
    session._schedulers._ledger.requests_left_out = 1
    result = session.generate(PROMPT, max_tokens=20).result()
    assert list(result.tokens) == plain_decode(PROMPT, 20, N_VOCAB)
    assert (result.report.drafted_tokens, list(drafter.seen)) == (0, [])
    assert [each["reason"] for each in result.report.decisions] == ["no-drafter"]
    assert session.generate(PROMPT, max_tokens=20).result().tokens == result.tokens
    assert list(drafter.seen)[: len(PROMPT)] == PROMPT
