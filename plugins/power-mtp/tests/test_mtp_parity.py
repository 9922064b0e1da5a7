"""MTP on the real library: greedy parity with plain decoding, own drafts and forced acceptance, every window."""

from __future__ import annotations

import pytest

from power_core.testing.models import build_tiny_target
from power_core.testing.parity import FORCED, reference, run_parity, text_prompts

pytestmark = pytest.mark.native

COMMON = {"ctx": 512, "batch": 64, "threads": 1}
SIZES = {
    "short": (3, 40),
    "whole": (50, 200),
}
SIZE_PARAMS = ["short", pytest.param("whole", marks=[pytest.mark.full, pytest.mark.slow])]


@pytest.fixture(scope="session")
def hybrid(tmp_path_factory):
    return build_tiny_target(tmp_path_factory.mktemp("mtp-models") / "hybrid.gguf", kind="hybrid", seed=5)


@pytest.fixture(scope="session")
def truths(hybrid):
    known = {}

    def truth(size):
        if size not in known:
            prompts, tokens = SIZES[size]
            known[size] = reference(hybrid, text_prompts(prompts), tokens, **COMMON)
        return known[size]

    return truth


@pytest.mark.parametrize("forced", [None, *FORCED])
@pytest.mark.parametrize("window", ["one", "all"])
@pytest.mark.parametrize("draft_max", [1, 2, 4, 7, 16])
@pytest.mark.parametrize("size", SIZE_PARAMS)
def test_greedy_output_equals_plain_decoding(hybrid, truths, size, draft_max, window, forced):
    snapshots = 1 if window == "one" else draft_max
    run = run_parity(hybrid, truths(size), forced, "mtp", draft_max=draft_max, snapshots=snapshots, **COMMON)
    assert run.differing == ()
    assert run.drafted_tokens > 0
    assert run.replays == 0


def test_the_seeds_shape_with_one_replay(hybrid, truths):
    run = run_parity(hybrid, truths("short"), "zero", "mtp", draft_max=7, snapshots=6, verify_rows="all", **COMMON)
    assert run.differing == ()
    assert 0 < run.replays <= run.prompts
