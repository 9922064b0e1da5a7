"""Whole sessions with the plugin on the real library; the cases are those of every block drafter."""

import pytest
from block_session_suite import *  # noqa: F403

pytestmark = pytest.mark.native
