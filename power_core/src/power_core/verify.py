"""Sample-and-match verification: which drafts the target's own choices confirm. Pure; evaluates nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import attrs

from power_core.tokens import TokenId

Ending: TypeAlias = Literal["correction", "bonus", "terminal"]


@attrs.frozen(kw_only=True)
class VerifiedBlock:
    """Outcome of one block.

    Attributes:
        accepted_tokens: Length of the accepted prefix of the drafts.
        emitted: The accepted drafts, then the correction or the bonus unless the block ended at a terminal token.
        ending: ``correction`` at the first mismatch, ``bonus`` after full acceptance, ``terminal`` at an accepted token
            that ends generation.
    """

    accepted_tokens: int
    emitted: Sequence[TokenId]
    ending: Ending


def verify_block(
    drafts: Sequence[TokenId], sample: Callable[[int], TokenId], is_terminal: Callable[[TokenId], bool]
) -> VerifiedBlock:
    """Accept the longest prefix of ``drafts`` that equals what the target draws.  Clauses: VERIFY-01..05.

    Row 0 follows the anchor, row ``i`` follows draft ``i - 1``. Rows are drawn in order, each once, and none after the
    first mismatch or terminal, so a ``sample`` that evaluates rows on demand never computes a row that nobody needs.
    ``is_terminal`` is asked once per accepted draft, in order.

    Args:
        drafts: Proposed tokens, D >= 0.
        sample: The target's draw at a row; advances the sampler's state.
        is_terminal: Whether an accepted token ends generation.

    Returns:
        The verified block; ``len(emitted)`` is ``accepted_tokens`` for a terminal, else one more.

    Source: power_reference.md section 2.2.
    """
    emitted: list[TokenId] = []
    for row, draft in enumerate(drafts):
        token = sample(row)
        emitted.append(token)
        if token != draft:
            return VerifiedBlock(accepted_tokens=row, emitted=emitted, ending="correction")
        if is_terminal(token):
            return VerifiedBlock(accepted_tokens=row + 1, emitted=emitted, ending="terminal")
    emitted.append(sample(len(drafts)))
    return VerifiedBlock(accepted_tokens=len(drafts), emitted=emitted, ending="bonus")
