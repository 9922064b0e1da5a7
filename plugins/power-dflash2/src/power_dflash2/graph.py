"""A DFlash2 draft as a draft graph: the rows of a block offer candidates, and a walk chooses among them.

::

    row          0        1                  2                         ...  K
    token        anchor   mask               mask                      ...  mask
    offers       -        T candidates       T candidates              ...  T candidates
    draft        -        best after anchor  best after draft 1's row  ...

Row i holds T candidate ids and a score for every pair of a candidate of row i - 1 and one of its own; the walk takes
the best successor of what it took last.
A draft's confidence is the softmax of its score among the T successors of the last choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from power_core.artifacts import BlockLayout
    from power_native.block import Confidence


def confidence(layout: BlockLayout) -> Confidence:
    """Return what a draft's confidence is, whatever the layout: its softmax."""
    return "softmax"
