"""What the plugin registers and refuses; the cases are those of every block drafter."""

import pytest
from block_plugin_suite import *  # noqa: F403

pytestmark = pytest.mark.native
