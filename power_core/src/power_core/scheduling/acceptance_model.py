"""How likely drafts are to be accepted, by position: decayed counts, for one request."""

from __future__ import annotations

from collections.abc import Iterable

from power_core.scheduling.base import RoundOutcome

PRIOR_ACCEPTANCE = 0.9
"""Assumed acceptance of the first draft before anything was seen: hopeful, so that it is tried where it could pay."""
PRIOR_TRIALS = 3.0
"""Trials that this is worth: little, so that a drafter which is never right is found out at once."""
INHERITED_TRIALS = 6.0
"""Trials that the estimate of the position before is worth: much, for deep positions are seldom reached."""
TRIAL_DECAY = 0.95
"""Weight that older trials of a position keep at each new one."""
IDLE_DECAY = 0.99
"""Weight that every trial keeps per round, so that positions that were not tried for long are forgotten."""


class _Rates:
    """Decayed success rates by position; each shrinks towards the one before it."""

    def __init__(self, positions: int, prior: float) -> None:
        self._prior = prior
        self._hits = [0.0] * positions
        self._trials = [0.0] * positions

    def add(self, successes: int, trials: int) -> None:
        """Take in trials at positions 0..trials-1, of which the first ``successes`` succeeded."""
        for position in range(trials):
            self._hits[position] = TRIAL_DECAY * self._hits[position] + (position < successes)
            self._trials[position] = TRIAL_DECAY * self._trials[position] + 1.0

    def fade(self, weight: float) -> None:
        """Keep ``weight`` of every trial."""
        self._hits = [weight * hits for hits in self._hits]
        self._trials = [weight * trials for trials in self._trials]

    def products(self) -> Iterable[float]:
        """Yield the probability that positions 0..i all succeed, for i = 0, 1, ..."""
        estimate, product, weight = self._prior, 1.0, PRIOR_TRIALS
        for hits, trials in zip(self._hits, self._trials, strict=True):
            estimate = (hits + weight * estimate) / (trials + weight)
            weight = INHERITED_TRIALS
            product *= estimate
            yield product


class AcceptanceModel:
    """Two rates by position: that a draft is proposed when asked for, and that it is accepted when reached."""

    def __init__(self, draft_max: int) -> None:
        self._proposed = _Rates(draft_max, 1.0)
        self._accepted = _Rates(draft_max, PRIOR_ACCEPTANCE)

    def learn(self, outcome: RoundOutcome) -> None:
        """Take in a round. The first rejected draft is a trial, the drafts behind it are none."""
        asked, drafted, accepted = outcome.asked_tokens, outcome.drafted_tokens, outcome.accepted_tokens
        self._proposed.add(drafted, min(drafted + 1, asked))
        self._accepted.add(accepted, min(accepted + 1, drafted))

    def fade(self, rounds: int) -> None:
        """Let what is known age by ``rounds`` rounds."""
        weight = IDLE_DECAY**rounds
        self._proposed.fade(weight)
        self._accepted.fade(weight)

    def reach(self) -> list[float]:
        """Return the probability that the first i drafts are all accepted, given that they are proposed; i = 0 to K."""
        return [1.0, *self._accepted.products()]

    def proposed(self) -> list[float]:
        """Return the probability that at least i drafts are proposed when i are asked for; i = 0 to K."""
        return [1.0, *self._proposed.products()]
