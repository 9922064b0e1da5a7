"""A DFlash draft as a draft graph: every mask row of a block is denoised at once.

::

    row          0        1      2      ...  K
    token        anchor   mask   mask   ...  mask
    draft        -        1      2      ...  K       the largest logit of the row

The rows see all that was fed and each other, so no draft waits for the one before it. A draft's confidence is its
softmax probability.
"""

from __future__ import annotations

from power_core.plugins.types import DrafterContext
from power_dflash.artifact import DflashValidator
from power_dflash.config import DISTRIBUTION, STRATEGY
from power_native import BlockGraph, open_block_graph, require_block_draft


def open_graph(context: DrafterContext) -> BlockGraph:
    """Check the draft, alone and against the target, and open it beside the target.

    Raises:
        ArtifactError: the draft breaks its contract, belongs to another target, or the library loaded something else.
        PowerError: what ``open_block_graph`` raises.
    """
    layout = require_block_draft(context, DflashValidator())
    return open_block_graph(context, layout, strategy=STRATEGY, distribution=DISTRIBUTION, confidence="softmax")
