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

from power_core.plugins.types import DrafterContext
from power_dspark.artifact import DsparkValidator
from power_dspark.config import DISTRIBUTION, STRATEGY
from power_native import BlockGraph, open_block_graph, require_block_draft


def open_graph(context: DrafterContext) -> BlockGraph:
    """Check the draft, alone and against the target, and open it beside the target.

    Raises:
        ArtifactError: the draft breaks its contract, belongs to another target, or the library loaded something else.
        PowerError: what ``open_block_graph`` raises.
    """
    layout = require_block_draft(context, DsparkValidator())
    return open_block_graph(
        context,
        layout,
        strategy=STRATEGY,
        distribution=DISTRIBUTION,
        confidence="state" if layout.has_confidence else "none",
    )
