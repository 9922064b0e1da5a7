"""The fixed verification shape through the real library: plain output, and added rows leave no state behind."""

import pytest

from power_core import open_session
from power_core.testing.drafts import build_tiny_draft

pytestmark = pytest.mark.native

PROMPT = [7, 8, 9, 10] * 5


def run(model, n_tokens=40, **settings):
    with open_session(model=model, ctx=128, threads=1, **settings) as session:
        result = session.generate(PROMPT, max_tokens=n_tokens).result()
        assert session.context.length_tokens() == len(session.committed_tokens)
        return result


@pytest.mark.parametrize(("draft_max", "snapshots"), [(3, 3), (7, 7), (7, 3), (5, 2)])
@pytest.mark.parametrize("spec", ["mtp", "dflash", "dspark", "prompt-lookup"])
def test_hybrid_targets(model_paths, tmp_path, spec, draft_max, snapshots):
    draft = build_tiny_draft(tmp_path / "draft.gguf", kind=spec, seed=2) if spec.startswith("d") else None
    model = model_paths["hybrid"]
    plain = run(model, spec="off")
    settings = {"spec": spec, "draft": draft, "draft_max": draft_max, "snapshots": snapshots}
    fixed = run(model, **settings, verify_shape="fixed")
    early = run(model, **settings)
    assert fixed.tokens == early.tokens == plain.tokens
    assert fixed.report.replays == 0
    assert fixed.report.accepted_tokens == early.report.accepted_tokens
    assert fixed.report.settings["verify_shape"] == "fixed"


@pytest.mark.parametrize("kind", ["attention", "sliding-window"])
def test_other_targets_across_the_window_and_to_the_end_of_the_context(model_paths, kind):
    plain = run(model_paths[kind], 200, spec="off")
    fixed = run(model_paths[kind], 200, spec="prompt-lookup", draft_max=6, verify_shape="fixed")
    assert fixed.tokens == plain.tokens
    assert fixed.finish_reason == plain.finish_reason == "context_full"
