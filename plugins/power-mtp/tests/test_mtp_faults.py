"""Whatever stops a round of MTP, the session goes on from its last committed token."""

import pytest
from fault_runs import check_faults

from power_core.testing.models import build_tiny_target

pytestmark = pytest.mark.native


@pytest.mark.parametrize("faults", [60, pytest.param(1000, marks=[pytest.mark.full, pytest.mark.slow])])
def test_any_fault_leaves_the_last_committed_state(tmp_path, faults):
    model = build_tiny_target(tmp_path / "hybrid.gguf", kind="hybrid", seed=5)
    check_faults(model, "mtp", faults, draft_max=5)
