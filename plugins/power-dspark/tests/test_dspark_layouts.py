"""What only DSpark drafts have: two places for the anchor, and a confidence head or none."""

import pytest
from block_files import TARGETS
from block_graph_suite import MIXED, PROMPT, check_rejections
from block_session_suite import COMMON, parity, truths  # noqa: F401 - a fixture

from power_core.artifacts import scan_header
from power_core.errors import ConfigError
from power_core.opening import open_session
from power_native import NativeModel

pytestmark = pytest.mark.native


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("accepted", [[0] * 6, [4] * 6, MIXED], ids=["zero", "full", "mixed"])
def test_bonus_anchor_drafts_after_rejections_equal_those_of_a_fresh_drafter(bench, target, accepted):
    check_rejections(bench, target, "bonus-anchor", accepted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["bonus-anchor", "no-confidence", "bonus-anchor-draft-vocabulary"])
@pytest.mark.parametrize("forced", [None, "partial"])
def test_every_layout_keeps_parity(files, truths, kind, target, form, forced):  # noqa: F811 - a fixture
    run = parity(files, truths, kind, target, forced, form=form, draft_max=7)
    assert run.differing == ()
    assert run.drafted_tokens > 0


@pytest.mark.parametrize(("from_anchor", "most"), [(True, 8), (False, 7)])
def test_the_layout_bounds_the_drafts(files, kind, from_anchor, most):
    header = scan_header(files.draft("dspark", sample_from_anchor=from_anchor))
    assert kind.spec.most_drafts(None, header) == most


def test_a_draft_without_a_confidence_head_has_no_confidence(files, kind):
    assert not kind.spec.has_confidence(None, scan_header(files.draft("dspark", confidence_head=False)))


def test_the_two_layouts_draft_differently(bench):
    """The same weights, read at other rows."""
    anchor_first, bonus = bench(), bench(form="bonus-anchor")
    anchor = anchor_first.start(PROMPT)
    assert bonus.start(PROMPT) == anchor
    assert list(anchor_first.propose(anchor).tokens) != list(bonus.propose(anchor).tokens)


def test_a_threshold_without_a_confidence_head_is_refused_when_the_drafter_is_made(bench):
    with pytest.raises(ConfigError, match=r"`draft_p_min` is 0.5, but the draft has no confidence head") as caught:
        bench(form="no-confidence", draft_p_min=0.5)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("draft_p_min", 0.5, "0")


def test_a_threshold_without_a_confidence_head_is_refused_in_a_proposal(bench):
    one = bench(form="no-confidence")
    anchor = one.start(PROMPT)
    with pytest.raises(ConfigError, match="no confidence head"):
        one.propose(anchor, p_min=0.1)
    assert len(one.propose(anchor).tokens) == 4


def test_a_threshold_without_a_confidence_head_loads_nothing(monkeypatch, files):
    monkeypatch.setattr(NativeModel, "open", None)
    draft = files.draft("dspark", confidence_head=False)
    with pytest.raises(ConfigError, match="no confidence head") as caught:
        open_session(model=files.target(), draft=draft, draft_p_min=0.5, **COMMON)
    assert caught.value.field == "draft_p_min"
