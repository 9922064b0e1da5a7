"""The goodput scheduler: pure simulations with fixed seeds against the best fixed width, and its rules one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.scheduling import GoodputScheduler, RoundOutcome, SchedulerSource, SpeculationLedger
from power_core.scheduling.cost_model import MOST_SURPRISE_ROUNDS, SURE_SAMPLES, CostCurve
from power_core.scheduling.credit import ALLOWANCE, MOST_ROUNDS, START_ROUNDS
from power_core.scheduling.goodput import FIRST_WAIT, MOST_DEBT, MOST_FEEDING_ROUNDS, RESTING_HOLD
from power_core.testing.simulated_rounds import Machine, simulate

K = 7
STAIRCASE = {1: 11.5, 2: 24.8, 3: 27.1, 4: 29.2, 5: 45.8, 8: 47.0}
WIDE_WEIGHTS = {1: 18.0, 2: 31.5, 3: 33.2, 4: 34.1, 5: 35.8, 8: 49.1}
TINY = {1: 0.85, 2: 1.65, 3: 1.99, 4: 2.19, 5: 2.31, 8: 2.55}
NEARLY_FREE = {1: 10.0, 8: 11.0}
LINEAR = {1: 10.0, 8: 80.0}
MACHINES = {
    "staircase, block drafter": Machine(verify_ms=STAIRCASE, draft_ms=(2.0, 0.0), noise=0.03),
    "wide weights, chained drafter": Machine(verify_ms=WIDE_WEIGHTS, draft_ms=(0.0, 1.5), noise=0.03),
    "tiny, block drafter": Machine(verify_ms=TINY, draft_ms=(0.33, 0.0), feed_ms=0.08, noise=0.03),
    "nearly free rows": Machine(verify_ms=NEARLY_FREE, draft_ms=(0.5, 0.3), noise=0.03),
    "every row costs the same": Machine(verify_ms=LINEAR, draft_ms=(0.5, 0.0), noise=0.03),
    "slices of four": Machine(verify_ms=STAIRCASE, draft_ms=(2.0, 0.0), slice_rows=4, noise=0.03),
    "tiny, slow at first": Machine(
        verify_ms={1: 0.134, 2: 0.205, 3: 0.262, 4: 0.303, 6: 0.402, 8: 0.518},
        draft_ms=(0.08, 0.04),
        owed_ms=0.016,
        start_ms=(0.34, 0.1, 0.06, 0.05, 0.02, 0.015, 0.01),
        first_draft_ms=4.0,
        change_ms=(0.13, 0.03, 0.01),
        noise=0.03,
    ),
    "cheap drafts, slow at first": Machine(
        verify_ms={1: 12.5, 2: 18.0, 3: 19.0, 4: 20.5, 6: 23.4, 8: 27.5},
        draft_ms=(0.04, 0.0),
        start_ms=(8.0, 7.0, 4.0, 1.0),
        change_ms=(1.0, 0.3),
        noise=0.03,
    ),
}
FALLING = (0.95, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2)
ACCEPTANCE = {
    "high": lambda index, position: 0.92,
    "medium": lambda index, position: 0.7,
    "low": lambda index, position: 0.25,
    "none": lambda index, position: 0.0,
    "falling by position": lambda index, position: FALLING[position],
    "changing": lambda index, position: 0.95 if index // 300 % 2 == 0 else 0.2,
}
REQUESTS, TOKENS = 4, 750


def source(name="goodput", width=K):
    return SchedulerSource(name, draft_max=width, rollback_tokens=width)


def goodput(machine, acceptance, **settings):
    return simulate(source(), machine, acceptance, **settings)


def fixed_rates(machine, acceptance, **settings):
    off = simulate(source("fixed", 0), machine.without_drafter(), acceptance, **settings)
    runs = [off, *(simulate(source("fixed", width), machine, acceptance, **settings) for width in range(1, K + 1))]
    return [run.tokens_per_second for run in runs]


@pytest.mark.parametrize("acceptance", ACCEPTANCE)
@pytest.mark.parametrize("machine", MACHINES)
def test_it_is_within_3_percent_of_the_best_fixed_width_and_never_below_098_of_off(machine, acceptance):
    settings = {"requests": REQUESTS, "tokens_per_request": TOKENS}
    rates = fixed_rates(MACHINES[machine], ACCEPTANCE[acceptance], **settings)
    rate = goodput(MACHINES[machine], ACCEPTANCE[acceptance], **settings).tokens_per_second
    assert rate >= 0.97 * max(rates)
    assert rate >= 0.98 * rates[0]


def test_a_drafter_that_proposes_now_and_then_pays_where_it_does():
    machine, settings = MACHINES["wide weights, chained drafter"], {"tokens_per_request": 3000}
    settings["proposes"] = lambda index: index // 40 % 3 == 0
    rates = fixed_rates(machine, ACCEPTANCE["high"], **settings)
    rate = goodput(machine, ACCEPTANCE["high"], **settings).tokens_per_second
    assert rate >= 0.97 * max(rates)


def play(scheduler, rounds, cost, accept, tokens=10**6):
    """Run rounds at exact costs; return tokens, time in plain rounds, and the widths asked for."""
    emitted, spent, asked = 0, 0.0, []
    for index in range(rounds):
        width = scheduler.next_limit(tokens, tokens)
        accepted = accept(index, width)
        draft_ns, verify_ns = cost(width)
        scheduler.observe(
            RoundOutcome(
                asked_tokens=width,
                drafted_tokens=width,
                accepted_tokens=accepted,
                draft_ns=draft_ns,
                verify_ns=verify_ns,
            )
        )
        emitted, spent = emitted + accepted + 1, spent + (draft_ns + verify_ns) / sum(cost(0))
        asked.append(width)
    return emitted, spent, asked


def costly(width):
    return (300 * (width > 0), 1000 + 450 * width)


def never(index, width):
    return 0


def always(index, width):
    return width


class Traitor:
    """Accepts everything until drafting is trusted, then nothing, until it is tried again."""

    def __init__(self, honest_rounds):
        self.honest_rounds, self.in_a_row = honest_rounds, 0

    def __call__(self, index, width):
        self.in_a_row = self.in_a_row + 1 if width else 0
        return width if self.in_a_row <= self.honest_rounds else 0


@pytest.mark.parametrize("honest_rounds", [0, 1, 2, 4, 6, 9, 20])
def test_an_adversarial_drafter_costs_at_most_the_floor(honest_rounds):
    emitted, spent, _ = play(GoodputScheduler(SpeculationLedger(K)), 3000, costly, Traitor(honest_rounds))
    assert spent <= emitted / 0.98


@given(st.lists(st.integers(0, K), min_size=1, max_size=200), st.integers(0, 2000))
def test_no_history_loses_more_than_the_credit(luck, row_ns):
    def cost(width):
        return (300 * (width > 0), 1000 + row_ns * width)

    emitted, spent, _ = play(
        GoodputScheduler(SpeculationLedger(K)), 200, cost, lambda index, width: min(width, luck[index % len(luck)])
    )
    worst_round = sum(cost(K)) / sum(cost(0))
    unsure = SURE_SAMPLES * K * max(0.0, worst_round - MOST_SURPRISE_ROUNDS)
    assert spent <= emitted * (1 + ALLOWANCE) + START_ROUNDS + worst_round + unsure


def test_a_session_begins_with_plain_rounds_and_the_next_request_does_not():
    ledger, decisions = SpeculationLedger(K), []
    first = GoodputScheduler(ledger, on_decision=decisions.append)
    assert first.next_limit(100, 100) == 0
    assert decisions[0].reason == "baseline"
    play(first, 10, costly, always)
    assert decisions[1].reason == "probe"
    assert decisions[1].expected_rate > 0
    assert GoodputScheduler(ledger).next_limit(100, 100) > 0


def test_a_request_begins_where_the_last_one_ended_and_is_soon_convinced_otherwise():
    ledger = SpeculationLedger(K)
    play(GoodputScheduler(ledger), 40, costly, always)
    _, _, asked = play(GoodputScheduler(ledger), 30, costly, never)
    assert asked[0] > 0
    assert asked[-1] == 0
    _, _, asked = play(GoodputScheduler(ledger), 60, costly, always)
    assert asked[0] == 0
    assert any(asked[: FIRST_WAIT + RESTING_HOLD + 1])
    assert asked[-1] > 0


def test_it_stops_when_drafting_does_not_pay_and_waits_longer_after_every_vain_try():
    _, _, asked = play(GoodputScheduler(SpeculationLedger(K)), 4000, costly, never)
    begins = [index for index in range(1, len(asked)) if asked[index] and not asked[index - 1]]
    pauses = [later - earlier for earlier, later in pairwise(begins)]
    assert pauses[0] > FIRST_WAIT
    assert pauses[-1] >= 2 * pauses[0]
    assert sum(width > 0 for width in asked) < 40


def test_it_comes_back_when_drafting_pays_again():
    scheduler = GoodputScheduler(SpeculationLedger(K))
    play(scheduler, 200, costly, never)
    _, _, asked = play(scheduler, 300, costly, always)
    assert asked[-1] == K


def test_it_never_tries_what_could_not_pay_even_if_all_were_accepted():
    def hopeless(width):
        return (0, 1000 + 1000 * width)

    _, _, asked = play(GoodputScheduler(SpeculationLedger(K)), 1000, hopeless, never)
    assert sum(width > 0 for width in asked) < 12


def test_widths_change_rarely_once_costs_are_known():
    decisions = []
    goodput(
        MACHINES["wide weights, chained drafter"],
        ACCEPTANCE["high"],
        tokens_per_request=3000,
        on_decision=decisions.append,
    )
    assert len(decisions) < 60


@pytest.mark.parametrize("draft_min", [2, 4])
def test_no_width_lies_between_zero_and_draft_min(draft_min):
    scheduler = GoodputScheduler(SpeculationLedger(K), draft_min=draft_min)
    _, _, asked = play(scheduler, 200, costly, lambda index, width: min(width, 2))
    assert {width for width in asked if 0 < width < draft_min} == set()
    assert max(asked) >= draft_min


def test_the_same_times_give_the_same_widths():
    runs = [goodput(MACHINES["staircase, block drafter"], ACCEPTANCE["changing"]) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_machine_that_slows_down_does_not_end_drafting():
    machine = Machine(verify_ms=NEARLY_FREE, draft_ms=(0.5, 0.0), growth=0.5)
    run = goodput(machine, ACCEPTANCE["high"], tokens_per_request=3000)
    assert run.widths[0] < 20


def test_single_outliers_change_no_width():
    decisions = []
    scheduler = GoodputScheduler(SpeculationLedger(K), on_decision=decisions.append)
    play(scheduler, 100, costly, always)
    before = len(decisions)

    def disturbed(width):
        return (300, 20 * (1000 + 450 * width))

    for _ in range(5):
        play(scheduler, 1, disturbed, always)
        play(scheduler, 20, costly, always)
    assert len(decisions) == before


@pytest.mark.parametrize("slow_times", [3, 5, 20, 100])
@pytest.mark.parametrize("slow_rounds", [1, 2])
def test_slow_first_rounds_with_drafts_delay_drafting_and_do_not_end_it(slow_rounds, slow_times):
    scheduler, left = GoodputScheduler(SpeculationLedger(K)), [slow_rounds]

    def slow_at_first(width):
        factor = slow_times if width and left[0] > 0 else 1
        return tuple(factor * part for part in costly(width))

    def accept(index, width):
        left[0] -= width > 0
        return width

    _, _, asked = play(scheduler, 500, slow_at_first, accept)
    assert asked[200:].count(K) >= 280


@pytest.mark.parametrize("stall_rounds", [3, 10, 30, 100])
@pytest.mark.parametrize("before", [3, 4, 5])
def test_a_stall_in_the_first_rounds_with_drafts_does_not_keep_drafting_away(before, stall_rounds):
    """Weights are paged in when they are first used; that says nothing about the next round."""
    scheduler = GoodputScheduler(SpeculationLedger(K))
    play(scheduler, before, costly, always)
    play(scheduler, 1, lambda width: (1000 * stall_rounds, 1000 + 450 * width), always)
    emitted, spent, _ = play(scheduler, 2000, costly, always)
    assert emitted / spent >= 0.95 * (K + 1) * sum(costly(0)) / sum(costly(K))


def decline(steps):
    """Return factors that fall by more than the settling share at each step, the last one well above 1."""
    factors = [1.2]
    for step in steps:
        factors.append(factors[-1] * step)
    return factors[::-1]


SLOW_START = st.lists(st.floats(1.1, 2.0), max_size=8).map(decline)


@given(SLOW_START, st.floats(1.0, 1e9))
def test_a_cost_is_not_known_before_it_has_settled(factors, cost):
    curve = CostCurve()
    for factor in factors:
        curve.add(1, factor * cost)
        assert not curve.is_sure(1)
    for _ in range(SURE_SAMPLES):
        curve.add(1, cost)
    assert curve.is_sure(1)
    assert curve.estimate(1) == pytest.approx(cost)


@given(SLOW_START)
def test_slow_first_rounds_of_a_session_do_not_make_drafts_look_cheap(factors):
    def hopeless(width):
        return (300 * (width > 0), 1000 + 1000 * width)

    scheduler, left = GoodputScheduler(SpeculationLedger(K)), list(factors)
    begun = [play(scheduler, 1, lambda width: (0, int(1000 * factor)), always)[2] for factor in left]  # noqa: B023
    _, _, asked = play(scheduler, 600, hopeless, always)
    assert begun == [[0]] * len(begun)
    assert sum(width > 0 for width in asked) < 16


@given(st.floats(0.0, 1.0), st.integers(1, 64))
def test_feeding_a_drafter_that_rests_costs_no_more_than_the_floor(share, every_rounds):
    final = []
    scheduler = GoodputScheduler(
        SpeculationLedger(K), on_decision=lambda decision: final.append(decision) if decision.without_drafter else None
    )
    feeding, spent, rounds = min(MOST_FEEDING_ROUNDS, share * every_rounds), 0.0, 0
    while rounds < 2000 and not final:
        fed_ns = int(1000 * feeding) if rounds % every_rounds == 0 else 0

        def cost(width, fed_ns=fed_ns):
            return (300, 1000 + 1000 * width) if width else (fed_ns, 1000)

        _, taken, _ = play(scheduler, 1, cost, never)
        spent, rounds = spent + taken * (1 + fed_ns / 1000), rounds + 1
    worst_round = 1.3 + K
    unchecked = RESTING_HOLD * share + feeding
    assert spent <= rounds * (1 + ALLOWANCE) + START_ROUNDS + MOST_DEBT + 2 * unchecked + 2 * worst_round


def test_credit_is_capped():
    ledger = SpeculationLedger(K)
    play(GoodputScheduler(ledger), 500, costly, always)
    assert ledger.credit.rounds == MOST_ROUNDS
