"""What every block drafter keeps in whole sessions: the output is plain decoding's, whatever happens in between.

Imported by the tests of each block drafter's plugin.
"""

import math
import struct

import pytest
from block_files import FORM_NAMES, TARGETS
from fault_runs import check_faults

from power_core.artifacts import scan_header
from power_core.errors import ConfigError, NativeCallError
from power_core.opening import open_session
from power_core.testing.parity import FORCED, reference, run_parity, text_prompts
from power_native import NativeModel

COMMON = {"ctx": 512, "batch": 64, "threads": 1}
PROMPTS, TOKENS = 3, 40
ONE, MOST = "one", "most"


@pytest.fixture(scope="session")
def truths(files):
    known = {}

    def truth(target):
        if target not in known:
            known[target] = reference(files.target(target), text_prompts(PROMPTS), TOKENS, **COMMON)
        return known[target]

    return truth


def parity(files, truths, kind, target, forced, *, form="plain", **settings):
    draft = files.draft(target=target, **kind.form(form))
    values = {**COMMON, "draft": draft, **settings}
    return run_parity(files.target(target), truths(target), forced, kind.name, **values)


# --------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("forced", [None, *FORCED])
@pytest.mark.parametrize("width", [ONE, 4, MOST])
def test_greedy_output_equals_plain_decoding(files, truths, kind, target, forced, width):
    draft_max = {ONE: 1, MOST: kind.most_drafts}.get(width, width)
    run = parity(files, truths, kind, target, forced, draft_max=draft_max)
    assert run.differing == ()
    assert run.drafted_tokens > 0
    assert run.replays == 0
    if forced in ("zero", "full"):
        assert run.accepted_tokens == (run.drafted_tokens if forced == "full" else 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORM_NAMES)
def test_every_form_of_a_draft_keeps_parity(files, truths, kind, target, form):
    run = parity(files, truths, kind, target, "partial", form=form, draft_max=5)
    assert run.differing == ()
    assert 0 < run.accepted_tokens < run.drafted_tokens


@pytest.mark.parametrize("snapshots", [1, 3])
def test_a_small_rollback_window_keeps_parity(files, truths, kind, snapshots):
    run = parity(files, truths, kind, "hybrid", "partial", draft_max=kind.most_drafts, snapshots=snapshots)
    assert run.differing == ()
    assert run.replays == 0


def test_a_replay_keeps_parity(files, truths, kind):
    run = parity(files, truths, kind, "hybrid", "zero", draft_max=7, snapshots=6, verify_rows="all")
    assert run.differing == ()
    assert 0 < run.replays <= run.prompts


@pytest.mark.parametrize("draft_p_min", [0.7, 1.0])
def test_a_threshold_keeps_parity_and_drafts_less(files, truths, kind, draft_p_min):
    whole = parity(files, truths, kind, "hybrid", None)
    cut = parity(files, truths, kind, "hybrid", None, draft_p_min=draft_p_min)
    assert cut.differing == ()
    assert cut.drafted_tokens < whole.drafted_tokens


def test_arithmetic_fast_runs_too(files, truths, kind):
    run = parity(files, truths, kind, "attention", "partial", arithmetic="fast")
    assert run.drafted_tokens > 0
    assert run.emitted_tokens == PROMPTS * TOKENS


# ------------------------------------------------------------------------------------------------ requests and sessions


def drafted(generation):
    result = generation.result()
    return result.tokens, result.report.drafted_tokens, result.report.accepted_tokens


@pytest.mark.parametrize("target", TARGETS)
def test_three_requests_on_one_session_equal_three_fresh_sessions(files, kind, target):
    settings = {
        "model": files.target(target),
        "draft": files.draft(kind.name, target),
        "spec": kind.name,
        "draft_p_min": 0.2,
        **COMMON,
    }
    prompts = text_prompts(3, seed=7)
    with open_session(**settings) as session:
        together = [drafted(session.generate(prompt, max_tokens=TOKENS)) for prompt in prompts]
    for prompt, expected in zip(prompts, together, strict=True):
        with open_session(**settings) as session:
            assert drafted(session.generate(prompt, max_tokens=TOKENS)) == expected


@pytest.mark.parametrize("nodes", [0, 7, 40])
def test_a_cancelled_proposal_leaves_the_last_committed_token(files, truths, kind, nodes):
    prompt, tokens = next(iter(truths("hybrid").items()))
    settings = {"model": files.target(), "draft": files.draft(kind.name), "spec": kind.name, **COMMON}
    with open_session(**settings) as session:
        generation = session.generate(prompt, max_tokens=TOKENS)
        got = [next(generation).token for _ in range(5)]
        session._drafter._graph._context.abort_after(nodes)
        got += [piece.token for piece in generation if piece.token is not None]
        assert generation.finish_reason == "cancelled"
        assert len(got) < TOKENS
        got += session.resume(max_tokens=TOKENS - len(got)).result().tokens
    assert got == tokens


def test_a_cancelled_prefill_is_forgotten(files, truths, kind):
    prompt, tokens = next(iter(truths("hybrid").items()))
    settings = {"model": files.target(), "draft": files.draft(kind.name), "spec": kind.name, **COMMON}
    with open_session(**settings) as session:
        session._drafter._graph._context.abort_after(3)
        generation = session.generate(prompt, max_tokens=TOKENS)
        assert list(generation) == []
        assert generation.finish_reason == "cancelled"
        assert list(session.generate(prompt, max_tokens=TOKENS).result().tokens) == tokens


@pytest.mark.parametrize("faults", [40, pytest.param(1000, marks=[pytest.mark.full, pytest.mark.slow])])
def test_any_fault_leaves_the_last_committed_state(files, kind, faults):
    check_faults(files.target(), kind.name, faults, draft=files.draft(kind.name), draft_max=5)


# --------------------------------------------------------------------------------------------------------------- bounds


def test_a_block_bounds_the_drafts(files, kind):
    settings = {"model": files.target(), "draft": files.draft(kind.name), "spec": kind.name, **COMMON}
    with pytest.raises(ConfigError, match=f"at most {kind.most_drafts}") as caught:
        open_session(draft_max=kind.most_drafts + 1, **settings)
    assert caught.value.field == "draft_max"


def test_a_longer_context_than_the_draft_s_is_refused_before_anything_is_loaded(monkeypatch, files, kind):
    monkeypatch.setattr(NativeModel, "open", None)
    settings = {"model": files.target(), "draft": files.draft(kind.name), "spec": kind.name}
    with pytest.raises(ConfigError, match=r"`ctx` is 8,193 tokens, .* trained for 8,192 positions"):
        open_session(ctx=8193, **settings)


def test_a_block_smaller_than_the_default_clamps_it_with_an_event(files, kind):
    draft = files.draft(kind.name, block_size_rows=3)
    most = kind.most_drafts - 5
    with open_session(model=files.target(), draft=draft, spec=kind.name, **COMMON) as session:
        report = session.generate("def", max_tokens=4).result().report
    assert {"event": "draft_max_clamped", "round": 0, "asked": 4, "granted": most} in report.events


def test_a_draft_of_damaged_weights_is_named(files, kind, tmp_path):
    draft = tmp_path / "damaged.gguf"
    content = bytearray(files.draft(kind.name).read_bytes())
    header = scan_header(files.draft(kind.name))
    at = header.data_offset_bytes + header.tensors["output_norm.weight"].offset_bytes
    content[at : at + 4] = struct.pack("<f", math.nan)
    draft.write_bytes(content)
    session = open_session(model=files.target(), draft=draft, spec=kind.name, **COMMON)
    with session, pytest.raises(NativeCallError) as caught:
        session.generate("def", max_tokens=8).result()
    assert "damaged.gguf are damaged: use another draft, or run with `--spec off`" in caught.value.hint


@pytest.mark.parametrize("target", TARGETS)
def test_the_kind_is_found_without_a_name(files, truths, kind, target):
    prompt, tokens = next(iter(truths(target).items()))
    with open_session(model=files.target(target), draft=files.draft(kind.name, target), **COMMON) as session:
        assert session.strategy == kind.name
        assert list(session.generate(prompt, max_tokens=TOKENS).result().tokens) == tokens
