"""A DFlash2 draft as a draft graph: the rows of a block offer candidates, and a walk chooses among them.

::

    row          0        1                  2                         ...  K
    token        anchor   mask               mask                      ...  mask
    offers       -        T candidates       T candidates              ...  T candidates
    draft        -        best after anchor  best after draft 1's row  ...

Row i holds T candidate ids and a score for every pair of a candidate of row i - 1 and one of its own; the walk takes
the best successor of what it took last. Nothing about a block depends on what a round asks for: one shape, one walk.
A draft's confidence is the softmax of its score among the T successors of the last choice.
"""

from __future__ import annotations

from power_core.plugins.types import DrafterContext
from power_dflash2.artifact import Dflash2Validator
from power_dflash2.config import DISTRIBUTION, STRATEGY
from power_native import BlockGraph, open_block_graph, require_block_draft


def open_graph(context: DrafterContext) -> BlockGraph:
    """Check the draft, alone and against the target, and open it beside the target.

    Raises:
        ArtifactError: the draft breaks its contract, belongs to another target, or the library loaded something else.
        PowerError: what ``open_block_graph`` raises.
    """
    layout = require_block_draft(context, Dflash2Validator())
    return open_block_graph(context, layout, strategy=STRATEGY, distribution=DISTRIBUTION, confidence="softmax")
