"""Schedulers in whole sessions: the output is plain decoding's, the drafter misses nothing, the report tells all."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from core_sessions import (
    N_VOCAB,
    PROMPT,
    SHAPES,
    drafts_with_acceptance,
    fake_context,
    open_fake_session,
    random_acceptance,
    window,
)
from hypothesis import given
from hypothesis import strategies as st

from power_core.deferred_feeding import MOST_OWED_ROWS
from power_core.errors import ConfigError
from power_core.opening import open_session
from power_core.report import FIRST_DECISIONS, MOST_DECISIONS, Report
from power_core.scheduling import Decision
from power_core.settings import SessionSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.fakes import ScriptedDrafter, plain_decode
from power_core.testing.models import build_tiny_target
from power_core.testing.parity import FORCED, reference, run_parity, text_prompts

DECIDING = ("adaptive", "goodput")
COMMON = {"ctx": 512, "batch": 64, "threads": 1}


class Strict(ScriptedDrafter):
    """A drafter that insists on having every committed row when it is asked."""

    def propose(self, request):
        assert request.n_past == len(self.seen)
        return super().propose(request)


@pytest.mark.parametrize("scheduler", DECIDING)
@given(SHAPES, st.integers(0, 2**16))
def test_every_width_gives_plain_decoding_and_feeds_the_drafter(scheduler, shape, seed):
    drafter = Strict(random_acceptance(seed))
    session = open_fake_session(drafter, **window(shape), scheduler=scheduler)
    for _ in range(2):
        result = session.generate(PROMPT, max_tokens=40).result()
        assert list(result.tokens) == plain_decode(PROMPT, 40, N_VOCAB)
        committed = list(session.committed_tokens)
        assert fake_context(session).tokens() == committed
        assert drafter.seen == committed[: len(drafter.seen)]
        assert len(committed) - len(drafter.seen) <= MOST_OWED_ROWS
        assert sum(result.report.draft_limit_histogram.values()) == result.report.rounds
        assert max(result.report.draft_limit_histogram) <= shape["draft_max"]


def test_rounds_without_drafts_feed_the_drafter_and_the_scheduler():
    drafter = Strict(drafts_with_acceptance(lambda limit: 0))
    session = open_fake_session(drafter, scheduler="adaptive")
    report = session.generate(PROMPT, max_tokens=60).result().report
    assert report.draft_limit_histogram[0] > 30
    session.resume(max_tokens=20).result()
    assert len(drafter.seen) > len(PROMPT) + 55
    assert drafter.seen == list(session.committed_tokens)[: len(drafter.seen)]
    assert report.drafted_tokens == sum(width * n for width, n in report.draft_limit_histogram.items())


def test_the_guard_wraps_a_deciding_scheduler():
    for scheduler in DECIDING:
        session = open_fake_session(
            ScriptedDrafter(drafts_with_acceptance(lambda limit: 0)),
            recurrent=True,
            draft_max=7,
            slice_rows=8,
            snapshots=6,
            guard_rows=6,
            scheduler=scheduler,
        )
        result = session.generate(PROMPT, max_tokens=60).result()
        assert list(result.tokens) == plain_decode(PROMPT, 60, N_VOCAB)
        assert result.report.replays <= 1


def test_decisions_and_their_end_are_in_the_report():
    session = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: 0)), scheduler="adaptive")
    report = session.generate(PROMPT, max_tokens=40).result().report
    assert report.decisions[0] == {"round": 0, "width": 4, "reason": "start", "expected_rate": None}
    assert report.decisions[-1]["reason"] == "target-only"
    assert [event["event"] for event in report.events] == ["scheduler"]
    assert report.events[0]["draft_limit"] == 0
    assert report.to_dict()["decisions"] == report.decisions


def test_a_resumed_request_keeps_its_scheduler():
    """The text goes on, so what was learned of it holds: drafting that was ended stays ended."""
    session = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: 0)), scheduler="adaptive")
    assert session.generate(PROMPT, max_tokens=40).result().report.decisions[-1]["reason"] == "target-only"
    resumed = session.resume(max_tokens=20).result().report
    assert (resumed.drafted_tokens, resumed.decisions, resumed.draft_limit_histogram) == (0, [], {0: 20})
    assert session.generate(PROMPT, max_tokens=5).result().report.decisions[0]["reason"] == "start"


def test_a_resumed_request_reports_its_own_decisions():
    session = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: 0)), scheduler="adaptive")
    first = session.generate(PROMPT, max_tokens=4).result().report
    assert first.decisions[-1]["reason"] == "zero"
    resumed = session.resume(max_tokens=40).result().report
    assert [each["reason"] for each in resumed.decisions] == ["target-only"]
    assert resumed.decisions[0]["round"] == resumed.events[-1]["round"] < 12


def test_a_guard_stays_clamped_when_its_request_is_resumed():
    window = {"recurrent": True, "draft_max": 7, "slice_rows": 8, "snapshots": 6, "guard_rows": 6}
    session = open_fake_session(ScriptedDrafter(drafts_with_acceptance(lambda limit: 0)), **window)
    assert session.generate(PROMPT, max_tokens=20).result().report.replays == 1
    resumed = session.resume(max_tokens=20).result().report
    assert (resumed.replays, max(resumed.draft_limit_histogram)) == (0, 6)


def test_a_fixed_width_decides_nothing():
    session = open_fake_session(ScriptedDrafter(random_acceptance(1)))
    assert session.generate(PROMPT, max_tokens=40).result().report.decisions == []


def test_the_list_of_decisions_stays_short():
    report = Report(strategy="x")
    for index in range(1000):
        report.rounds = index
        report.add_decision(Decision(width_tokens=index % 5, reason="goodput", expected_rate=1.0))
    assert len(report.decisions) == MOST_DECISIONS
    assert report.decisions_dropped == 1000 - MOST_DECISIONS
    rounds = [decision["round"] for decision in report.decisions]
    assert rounds[:FIRST_DECISIONS] == list(range(FIRST_DECISIONS))
    assert rounds[FIRST_DECISIONS:] == list(range(1000 - MOST_DECISIONS + FIRST_DECISIONS, 1000))


def test_adaptive_needs_snapshots_for_the_narrowest_width():
    with pytest.raises(ConfigError, match="`snapshots` is 2, expected at least draft_min"):
        SessionSettings(scheduler="adaptive", snapshots=2, draft_min=3, draft_max=4)
    SessionSettings(scheduler="goodput", snapshots=2, draft_min=3, draft_max=4)


@pytest.mark.parametrize("what", ["probe", "rebuild"])
def test_what_happens_before_a_round_is_no_cost_of_its_width(monkeypatch, what):
    """A measurement, or a rebuild, takes as long as a thousand rounds; the floor must not take it for a loss."""
    session = open_fake_session(ScriptedDrafter(random_acceptance(3)), scheduler="goodput")
    clock, outcomes = itertools.count(), []
    elapsed = [0]
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(clock) + elapsed[0])
    ensure_ready = session._sequence.ensure_ready

    def slow(*arguments):
        elapsed[0] += 10**9

    if what == "rebuild":
        monkeypatch.setattr(session._sequence, "ensure_ready", lambda report: (slow(), ensure_ready(report)))
    generation = session.generate(PROMPT, max_tokens=30)
    if what == "probe":
        session._parts.guarantor = SimpleNamespace(cover=slow, guard_threshold=None)
    monkeypatch.setattr(generation, "_observe", outcomes.append)
    generation.result()
    assert len(outcomes) > 5
    assert all(outcome.draft_ns + outcome.verify_ns < 10**6 for outcome in outcomes)
    assert all(outcome.verify_ns > 0 for outcome in outcomes)


def test_what_the_session_learns_about_costs_outlives_a_request():
    session = open_fake_session(ScriptedDrafter(random_acceptance(2)), scheduler="goodput")
    first = session.generate(PROMPT, max_tokens=40).result().report
    second = session.generate(PROMPT, max_tokens=40).result().report
    assert first.decisions[0]["reason"] == "baseline"
    assert second.decisions[0]["reason"] != "baseline"


# ------------------------------------------------------------------------------------------------------- real library


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scheduled")


@pytest.fixture(scope="module")
def targets(folder):
    return {kind: build_tiny_target(folder / f"{kind}.gguf", kind=kind, seed=5) for kind in ("hybrid", "attention")}


@pytest.fixture(scope="module")
def truths(targets):
    return {kind: reference(path, text_prompts(2), 48, **COMMON) for kind, path in targets.items()}


def strategy_files(folder, spec, target):
    if spec in ("mtp", "ngram-context"):
        return {}
    draft = folder / f"{spec}-{target}.gguf"
    return {"draft": draft if draft.is_file() else build_tiny_draft(draft, kind=spec, target=target)}


PAIRS = [
    ("mtp", "hybrid"),
    ("ngram-context", "attention"),
    ("dflash", "hybrid"),
    ("dspark", "hybrid"),
    ("dspark", "attention"),
]


@pytest.mark.native
@pytest.mark.parametrize("scheduler", DECIDING)
@pytest.mark.parametrize("forced", [None, *FORCED])
@pytest.mark.parametrize(("spec", "target"), PAIRS)
def test_greedy_output_equals_plain_decoding_on_real_targets(folder, targets, truths, spec, target, forced, scheduler):
    settings = {"draft_max": 4, "scheduler": scheduler, **strategy_files(folder, spec, target), **COMMON}
    run = run_parity(targets[target], truths[target], forced, spec, **settings)
    assert run.differing == ()
    assert run.replays == 0
    assert run.drafted_tokens > 0 or (spec, forced) == ("ngram-context", None)


@pytest.mark.native
@pytest.mark.parametrize(("spec", "target"), [pair for pair in PAIRS if pair[0] != "ngram-context"])
def test_a_drafter_that_paused_drafts_what_one_that_did_not_drafts(folder, targets, spec, target, monkeypatch):
    """Widths are 0, also for long; the drafts at a position stay those of rounds without a pause."""
    files = strategy_files(folder, spec, target)
    prompt, drafts = text_prompts(1)[0], {}
    for scheduler in ("fixed", "adaptive"):
        with open_session(model=targets[target], spec=spec, draft_max=4, scheduler=scheduler, **files, **COMMON) as s:
            rounds, known = s._rounds, drafts.setdefault(scheduler, {})
            if scheduler == "adaptive":
                widths = iter([4, 0, 0, 0, 4, 0, 4, *[0] * 12, 4] * 10)
                monkeypatch.setattr(
                    "power_core.scheduling.adaptive.AdaptiveScheduler.next_limit",
                    lambda self, tokens, context, widths=widths: max(0, min(next(widths), tokens - 1, context)),
                )
            run = rounds.run

            def recorded(rounds=rounds, run=run, known=known):
                run()
                known[rounds.sheet.first_pos] = rounds.tokens()[1:]

            monkeypatch.setattr(rounds, "run", recorded)
            s.generate(prompt, max_tokens=60).result()
    shared = drafts["fixed"].keys() & drafts["adaptive"].keys()
    assert len(shared) >= 4
    for position in shared:
        assert drafts["adaptive"][position] == drafts["fixed"][position]


@pytest.mark.native
def test_a_rollback_after_a_long_pause_asks_no_more_of_a_short_window(folder, targets, monkeypatch):
    """The library keeps 32 rows more than this window: a hand-over of 64 rows could not be taken back."""
    draft = build_tiny_draft(folder / "window.gguf", kind="dspark", target="attention", window_tokens=224)
    widths = iter([0] * 360 + [4] * 100)
    monkeypatch.setattr(
        "power_core.scheduling.adaptive.AdaptiveScheduler.next_limit",
        lambda self, tokens, context: max(0, min(next(widths), tokens - 1, context)),
    )
    prompt = text_prompts(1)[0]
    with open_session(
        model=targets["attention"], draft=draft, spec="dspark", draft_max=4, scheduler="adaptive", **COMMON
    ) as session:
        generation = session.generate(prompt, max_tokens=400)
        run = session._rounds.run

        def stop():
            session.context.abort_after(0)
            run()

        monkeypatch.setattr(session._rounds, "run", stop)
        assert generation.result().finish_reason == "cancelled"
        assert len(session.committed_tokens) > 300
        monkeypatch.setattr(session._rounds, "run", run)
        rest = session.resume(max_tokens=20).result()
        assert rest.report.drafted_tokens > 0


@pytest.mark.native
@pytest.mark.parametrize("scheduler", DECIDING)
def test_dflash2_runs_with_the_fixed_scheduler_only(folder, targets, scheduler):
    files = strategy_files(folder, "dflash2", "hybrid")
    with pytest.raises(
        ConfigError, match=f"`scheduler` is '{scheduler}', but the strategy dflash2 runs with fixed only"
    ):
        open_session(model=targets["hybrid"], spec="dflash2", scheduler=scheduler, **files, **COMMON)
