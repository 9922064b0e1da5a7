"""What speculation may still lose against plain decoding: the floor under the goodput scheduler."""

from __future__ import annotations

START_ROUNDS = 10.0
"""Rounds of plain decoding that a session may lose before it has gained anything."""
MOST_ROUNDS = 48.0
"""Most that is remembered of gains; older gains pay for nothing."""
ALLOWANCE = 0.005
"""Share of plain decoding's time that may be lost in the long run."""


class Credit:
    """A balance in rounds of plain decoding.

    Every token earns one round, which is what plain decoding would have taken for it, and the allowance; every round
    costs what it took. So a session that stops speculating at zero never takes longer than plain decoding by more than
    the allowance, the start credit and one round.

    Attributes:
        rounds: The balance.
    """

    def __init__(self) -> None:
        self.rounds = START_ROUNDS

    def settle(self, emitted_tokens: int, spent_rounds: float) -> None:
        """Book a round that emitted tokens and took ``spent_rounds`` times a round without drafts."""
        self.rounds = min(MOST_ROUNDS, self.rounds + emitted_tokens * (1.0 + ALLOWANCE) - spent_rounds)
