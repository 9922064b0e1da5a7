"""A DFlash draft as a draft graph: every mask row of a block is denoised at once.

::

    row          0        1      2      ...  K
    token        anchor   mask   mask   ...  mask
    draft        -        1      2      ...  K       the largest logit of the row

The rows see all that was fed and each other, so no draft waits for the one before it. A draft's confidence is its
softmax probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from power_core.artifacts import BlockLayout
    from power_native.block import Confidence


def confidence(layout: BlockLayout) -> Confidence:
    """Return what a draft's confidence is, whatever the layout: its softmax."""
    return "softmax"
