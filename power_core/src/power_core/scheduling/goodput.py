"""The width with the most committed tokens per second, by measured costs and acceptance, above a no-regret floor.

Never reads a clock: time comes in with each outcome. docs/scheduling.md has formulas, constants and limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from power_core.scheduling.acceptance_model import AcceptanceModel
from power_core.scheduling.base import Decision, OnDecision, RoundOutcome, bounded_draft_len, ignore_decision
from power_core.scheduling.cost_model import RoundCosts
from power_core.scheduling.credit import Credit

HOLD_ROUNDS = 4
"""Rounds between two decisions after a width was chosen."""
LONGEST_HOLD = 8
"""Rounds between two decisions once it was confirmed."""
RESTING_HOLD = 16
"""Rounds between two decisions while nothing is drafted."""
TRIAL_ROUNDS = 4
"""Rounds after drafting began, or began again, in which every round is followed by a decision."""
MARGIN = 0.02
"""How much faster another width must promise to be."""
PRICE_ROUNDS = 1
"""Fruitless rounds that the credit must cover before drafting begins."""
FIRST_WAIT = 16
"""Target-only rounds before drafting is tried again."""
LONGEST_WAIT = 512
"""Most that the wait grows to; it doubles whenever drafting ended with less credit than it began with."""
MOST_DEBT = 2.0
"""Plain rounds below zero that feeding a drafter which rests may cost before it is left out."""
MOST_FEEDING_ROUNDS = 16.0
"""Most that feeding counts for in one round: one that was interrupted then does not leave the drafter out."""
CURIOUS_ROUNDS = 24.0
"""Balance from which widths that were never measured are guessed hopefully."""
HOPELESS_DECISIONS = 5
"""Decisions in a row at which even nearly full acceptance could not pay, after which the drafter is left out."""
HOPELESS_REQUESTS = 16
"""Further requests without it, when the request drafted hardly ever: elsewhere drafting may pay in short contexts."""
FEW_ROUNDS = 32
"""Drafting rounds below which it hardly ever did."""
ROUNDS_BETWEEN_REQUESTS = 30
"""Rounds by which what is known of the acceptance ages from one request to the next."""


class SpeculationLedger:
    """What a session knows across its requests: costs of this machine and model, and what may still be lost.

    Attributes:
        acceptance: What the latest request found, None before the first.
        hopeless_decisions: Decisions in a row at which nothing could pay.
        requests_left_out: Further requests that run without the drafter.
    """

    def __init__(self, draft_max: int) -> None:
        self.draft_max = draft_max
        self.costs = RoundCosts(draft_max)
        self.credit = Credit()
        self.acceptance: AcceptanceModel | None = None
        self.hopeless_decisions = 0
        self.requests_left_out = 0

    def drafts_in_next_request(self) -> bool:
        """Tell whether the next request needs the drafter; call it once a request."""
        if self.requests_left_out > 0:
            self.requests_left_out -= 1
            return False
        self.hopeless_decisions = 0
        return True


class GoodputScheduler:
    """Chooses among 0 and ``draft_min``..K the width that promises the most tokens per second.

    Args:
        ledger: The session's; K is its.
        draft_min: Narrowest width worth asking for.
        on_decision: Called with every change of the width.
    """

    def __init__(
        self, ledger: SpeculationLedger, *, draft_min: int = 0, on_decision: OnDecision = ignore_decision
    ) -> None:
        self._ledger = ledger
        self._narrowest = max(1, draft_min)
        self._on_decision = on_decision
        self._width = -1
        self._held = 0
        self._hold = 0
        self._trial_left = 0
        self._phase_credit = ledger.credit.rounds
        self._drafting_rounds = 0
        self._over = False
        self._wait = FIRST_WAIT
        self._rested = 0
        self._recall()
        self._decide()

    def next_limit(self, remaining_tokens: int, remaining_context: int) -> int:
        """Return the chosen width bounded by what is left."""
        return bounded_draft_len(self._width, remaining_tokens, remaining_context)

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn costs and acceptance; decide anew when the width was held long enough or the credit is used up."""
        ledger = self._ledger
        if self._over:
            return
        spent = ledger.costs.learn(outcome)
        if outcome.asked_tokens == 0:
            ledger.credit.settle(1, 1.0 + min(MOST_FEEDING_ROUNDS, ledger.costs.feeding_rounds(outcome)))
        else:
            self._drafting_rounds += 1
            self._acceptance.learn(outcome)
            baseline = ledger.costs.baseline
            ledger.credit.settle(outcome.accepted_tokens + 1, spent / baseline if baseline else 0.0)
        self._held += 1
        if self._held >= self._hold or (self._width > 0 and ledger.credit.rounds <= 0.0):
            self._decide()

    def _recall(self) -> None:
        """Begin with what the last request found, or hopefully without one."""
        known = self._ledger.acceptance
        if known is None:
            self._rested = FIRST_WAIT
            self._expect(AcceptanceModel(self._ledger.draft_max))
        else:
            known.fade(ROUNDS_BETWEEN_REQUESTS)
            self._expect(known)

    def _expect(self, acceptance: AcceptanceModel) -> None:
        self._acceptance = self._ledger.acceptance = acceptance

    def _decide(self) -> None:
        if not self._ledger.costs.baseline_known:
            self._choose(0, "baseline", None, 1)
            return
        if self._width > 0:
            self._go_on()
        elif self._ledger.credit.rounds < min(0.0, self._phase_credit) - MOST_DEBT:
            self._give_up("feeding")
        else:
            self._begin()

    def _go_on(self) -> None:
        """While drafting: keep the width, take a better one, or stop."""
        self._acceptance.fade(self._held)
        rates = self._rates(self._acceptance)
        best = self._best(rates, range(self._narrowest, len(rates)))
        self._trial_left -= 1
        if self._ledger.credit.rounds <= 0.0:
            self._rest("floor", rates[0])
        elif rates[0] > rates[best] * (1.0 + MARGIN):
            self._rest("target-only", rates[0])
        else:
            if rates[self._width] * (1.0 + MARGIN) >= rates[best]:
                best = self._width
            self._choose(best, "goodput", rates[best], self._next_hold(best))

    def _begin(self) -> None:
        """While not drafting: begin when costs say so, or try again after the wait; never beyond the credit."""
        self._rested += self._held
        waited = self._rested >= self._wait
        acceptance = AcceptanceModel(self._ledger.draft_max) if waited else self._acceptance
        rates = self._rates(acceptance)
        best = self._best(rates, self._affordable())
        if best and rates[best] > rates[0] * (1.0 + MARGIN):
            self._expect(acceptance)
            self._rested = 0
            self._trial_left, self._phase_credit = TRIAL_ROUNDS, self._ledger.credit.rounds
            self._choose(best, "probe" if waited else "goodput", rates[best], self._next_hold(best))
        else:
            self._choose(0, "target-only", rates[0], RESTING_HOLD)
            if waited:
                self._count_hopeless(rates)

    def _count_hopeless(self, rates: Sequence[float]) -> None:
        """Give up when no width could pay at any decision of the last ones."""
        could_pay = max(rates[self._narrowest :], default=0.0) > rates[0] * (1.0 + MARGIN)
        ledger = self._ledger
        ledger.hopeless_decisions = 0 if could_pay else ledger.hopeless_decisions + 1
        if ledger.hopeless_decisions >= HOPELESS_DECISIONS:
            self._give_up("hopeless")

    def _give_up(self, reason: str) -> None:
        """Leave the drafter out for the rest of the request, and in some more when this one hardly drafted."""
        self._over = True
        self._ledger.requests_left_out = HOPELESS_REQUESTS if self._drafting_rounds < FEW_ROUNDS else 0
        self._choose(0, reason, None, RESTING_HOLD)
        self._on_decision(Decision(width_tokens=0, reason=reason, final=True, without_drafter=True))

    def _next_hold(self, width: int) -> int:
        """Return how long a width of ongoing drafting holds."""
        if self._trial_left > 0:
            return 1
        return LONGEST_HOLD if width == self._width and self._hold >= HOLD_ROUNDS else HOLD_ROUNDS

    def _rest(self, reason: str, rate: float) -> None:
        credit = self._ledger.credit.rounds
        self._wait = FIRST_WAIT if credit >= self._phase_credit else min(LONGEST_WAIT, 2 * self._wait)
        self._phase_credit, self._rested = credit, 0
        self._choose(0, reason, rate, RESTING_HOLD)

    def _choose(self, width: int, reason: str, rate: float | None, hold: int) -> None:
        self._held, self._hold = 0, hold
        if width != self._width:
            self._width = width
            self._on_decision(Decision(width_tokens=width, reason=reason, expected_rate=rate))

    def _best(self, rates: Sequence[float], widths: Sequence[int]) -> int:
        return max(widths, key=lambda width: rates[width], default=0)

    def _affordable(self) -> list[int]:
        """Return the widths whose fruitless rounds the credit covers."""
        costs = self._ledger.costs
        fruitless = [1.0] + [0.0] * self._ledger.draft_max
        draft, verify = costs.draft_table(), costs.verify_table(fruitless)
        most = costs.baseline * (1.0 + self._ledger.credit.rounds / PRICE_ROUNDS)
        return [width for width in range(self._narrowest, len(draft)) if draft[width] + verify[width] <= most]

    def _rates(self, acceptance: AcceptanceModel) -> list[float]:
        """Return the expected committed tokens per second of each width, 0 to K."""
        reach, proposed = acceptance.reach(), acceptance.proposed()
        self._ledger.costs.be_curious(self._ledger.credit.rounds >= CURIOUS_ROUNDS)
        draft, verify = self._ledger.costs.draft_table(), self._ledger.costs.verify_table(reach)
        per_second = 1e9 / self._ledger.costs.pace
        rates, tokens, short = [], 0.0, 0.0
        for width in range(len(draft)):
            tokens += proposed[width] * reach[width]
            if width:
                short += (proposed[width - 1] - proposed[width]) * verify[width - 1]
            rates.append(tokens * per_second / max(1.0, draft[width] + short + proposed[width] * verify[width]))
        return rates
