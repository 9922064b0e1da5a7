"""Parity of a random-weight draft with plain decoding on a real target whose window is crossed."""

from __future__ import annotations

from pathlib import Path

from power_core.testing.draft_weights import DraftKind
from power_core.testing.parity import reference, run_parity


def long_prompts(pages: Path, least_characters: int) -> list[str]:
    """Return texts of at least that many characters, the beginnings of the documentation's decisions put together."""
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in sorted(pages.glob("000*.md")))
    return [text[start : start + least_characters] for start in (0, 3000, 6000)]


def check_parity_across_the_window(target: Path, draft: Path, kind: DraftKind, pages: Path) -> None:
    """Compare greedy output with plain decoding across the end of the window's ring, own and forced drafts.

    The window is 512 tokens; with 64 rows an evaluation its ring has 768 cells, which 768 tokens fill.
    """
    common = {"ctx": 1024, "batch": 64, "threads": 2}
    truth = reference(target, long_prompts(pages, 3000), 120, **common)
    assert all(512 < len(prompt) < 768 < len(prompt) + 120 for prompt in truth)
    for forced, draft_max in ((None, 4), ("partial", 7)):
        run = run_parity(target, truth, forced, kind, draft=draft, draft_max=draft_max, **common)
        assert run.differing == ()
        assert run.drafted_tokens > run.accepted_tokens
        assert (run.accepted_tokens > 0) == (forced is not None)
