"""A DSpark draft as a draft graph: inside a block each draft's logits are biased by the draft before it.

::

    anchor-first   row     0        1      ...  K-1
                   token   anchor   mask   ...  mask
                   draft   1        2      ...  K

    bonus anchor   row     0        1      ...  K
                   token   anchor   mask   ...  mask
                   draft   -        1      ...  K

The chain runs inside the graph: the bias of a row comes from the largest logit of the row before it, for the first
draft from the anchor. A confidence head, where there is one, says for each row how likely the draft is to be accepted;
without one there is no confidence, and a threshold is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from power_core.artifacts import BlockLayout
    from power_native.block import Confidence


def confidence(layout: BlockLayout) -> Confidence:
    """Return what a draft's confidence is: what the head says, where the file has one."""
    return "state" if layout.has_confidence else "none"
