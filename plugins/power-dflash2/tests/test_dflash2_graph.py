"""The draft graph of the plugin on the real library; the cases are those of every block drafter."""

import pytest
from block_graph_suite import *  # noqa: F403
from block_opening_suite import *  # noqa: F403
from sequences_suite import *  # noqa: F403

pytestmark = pytest.mark.native
