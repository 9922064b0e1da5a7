"""The runs on fakes: reference, warm-up, pairs, and the runs that are refused. No model is loaded."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import attrs
import pytest
from bench_fakes import MTP, OFF, PROMPTS, WIDE, FakeOpener, fake_plan, fake_report, run_fakes
from core_sessions import N_VOCAB
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core.bench.costs import measure_row_costs
from power_core.bench.measures import time_request, tokens_digest
from power_core.bench.plan import BenchPlan, Gates, Prompt
from power_core.bench.records import VariantRecord
from power_core.bench.validity import require_same_settings
from power_core.errors import BenchError, Cancelled, PromptError
from power_core.settings import RequestSettings
from power_core.testing.fakes import FakeVocabulary, plain_decode

VOCABULARY = FakeVocabulary(N_VOCAB, N_VOCAB)


def test_every_variant_has_every_prompt_in_every_repeat_and_all_outputs_are_plain_decoding():
    outcome = run_fakes(fake_plan())
    counted = Counter((sample.variant, sample.prompt, sample.repeat) for sample in outcome.samples)
    assert set(counted.values()) == {1}
    assert len(counted) == 3 * 2 * 3
    for prompt, record in zip(PROMPTS, outcome.prompts, strict=True):
        expected = tokens_digest(plain_decode(VOCABULARY.tokenize(prompt.text), 24, N_VOCAB))
        assert record.output_sha256 == expected
        assert {sample.output_sha256 for sample in outcome.samples if sample.prompt == prompt.name} == {expected}


@settings(max_examples=10, deadline=None)
@given(
    accept=st.integers(0, 5),
    max_tokens=st.integers(2, 40),
    repeats=st.integers(1, 2),
    recurrent=st.booleans(),
)
def test_the_identities_of_the_counters_hold(accept: int, max_tokens: int, repeats: int, recurrent: bool):
    plan = fake_plan(request=RequestSettings(max_tokens=max_tokens), repeats=repeats, warmups=0)
    report = fake_report(plan, FakeOpener(lambda limit: min(accept, limit), recurrent=recurrent, snapshots=6))
    for sample in report.samples:
        assert sample.tokens == 1 + sample.verified_tokens
        assert sample.verified_tokens == sample.accepted_tokens + sample.rounds
        assert sum(sample.accepted_histogram.values()) == sum(sample.drafted_histogram.values()) == sample.rounds
        assert sample.drafted_tokens == sum(drafts * rounds for drafts, rounds in sample.drafted_histogram.items())
        assert 0 < sample.first_token_ns < sample.last_token_ns <= sample.total_ns
        seconds = (sample.last_token_ns - sample.first_token_ns) / 1e9
        assert sample.decode_tokens_per_second == pytest.approx((sample.tokens - 1) / seconds)
    for summary in report.summaries:
        samples = report.samples_of(summary.variant)
        assert summary.tokens == len(samples) * max_tokens
        assert summary.minimum_decode_tokens_per_second <= summary.median_decode_tokens_per_second
        assert summary.median_decode_tokens_per_second <= summary.maximum_decode_tokens_per_second
        assert list(summary.accepted_by_position) == sorted(summary.accepted_by_position, reverse=True)
        assert all(0.0 <= share <= 1.0 for share in summary.accepted_by_position)
        wide = summary.tokens * 1e9 / sum(sample.total_ns for sample in samples)
        assert summary.request_wide_tokens_per_second == pytest.approx(wide)
        assert summary.prompts_equal_to_off == 2
    assert report.passed


def test_plain_decoding_runs_first_and_warm_ups_are_not_kept():
    opener = FakeOpener()
    outcome = run_fakes(fake_plan(repeats=1, warmups=2, variants=(OFF, MTP)), opener)
    assert opener.opened == ["off", "mtp K=3"]
    names = [name for name, _ in opener.requests]
    assert names[:2] == ["off", "off"]  # the reference of both prompts
    assert names[2:4] == ["mtp K=3", "mtp K=3"]
    assert names[4:8] == ["off", "off", "mtp K=3", "mtp K=3"]
    assert names[8:] == ["off", "mtp K=3", "mtp K=3", "off"]
    assert [sample.variant for sample in outcome.samples] == names[8:]
    assert [sample.place for sample in outcome.samples] == [0, 1, 0, 1]


@pytest.mark.parametrize("n_prompts", [1, 2, 3, 4])
def test_the_order_of_every_prompt_alternates_from_repeat_to_repeat(n_prompts: int):
    prompts = tuple(Prompt(name=str(index), text="abc" * (index + 1)) for index in range(n_prompts))
    plan = fake_plan(variants=(OFF, MTP), prompts=prompts, repeats=4, warmups=0)
    places = Counter((sample.prompt, sample.variant, sample.place) for sample in run_fakes(plan).samples)
    assert set(places.values()) == {2}


def test_sessions_in_turn_are_opened_and_closed_for_every_run():
    opener = FakeOpener()
    outcome = run_fakes(fake_plan(sessions="in-turn", repeats=2, warmups=1), opener)
    assert len(opener.opened) == 1 + 3 * 2 * 2
    assert len(opener.requests) == 2 + 2 * len(outcome.samples)  # the references, then a warm-up before each run
    assert all(session._closed for session in opener.sessions)
    assert {record.name for record in outcome.variants} == {"off", "mtp K=3", "mtp K=5"}


def test_sessions_together_are_closed_at_the_end_also_after_an_error():
    opener = FakeOpener()
    run_fakes(fake_plan(), opener)
    assert opener.opened == ["off", "mtp K=3", "mtp K=5"]
    assert all(session._closed for session in opener.sessions)
    failing = FakeOpener()
    failing.before_request = raise_after(7)
    with pytest.raises(ZeroDivisionError):
        run_fakes(fake_plan(), failing)
    assert all(session._closed for session in failing.sessions)


def raise_after(requests: int):
    done: list[str] = []

    def before(session, name):
        done.append(name)
        if len(done) > requests:
            raise ZeroDivisionError

    return before


def test_progress_counts_runs_before_they_begin():
    calls: list[tuple[str, int, int]] = []
    run_fakes(fake_plan(), progress=lambda *call: calls.append(call))
    warm = [call for call in calls if call[0] == "warm-up"]
    bench = [call for call in calls if call[0] == "bench"]
    assert [done for _, done, _ in warm] == list(range(6))
    assert {total for _, _, total in warm} == {6}
    assert [done for _, done, _ in bench] == list(range(18))
    assert {total for _, _, total in bench} == {18}


def test_a_prompt_without_room_is_refused_before_anything_runs():
    opener = FakeOpener(ctx_tokens=32)
    plan = fake_plan(prompts=(Prompt(name="long", text="x" * 9),))
    with pytest.raises(PromptError, match="with 24 generated ones at most the context's 32"):
        run_fakes(plan, opener)
    assert opener.requests == []


# --------------------------------------------------------------------------------------------------------- refusals


def refused(plan: BenchPlan, opener: FakeOpener) -> str:
    with pytest.raises(BenchError) as caught:
        run_fakes(plan, opener)
    return caught.value.rule


def test_a_run_that_ends_early_is_refused_at_once():
    opener = FakeOpener(first_end=90)
    assert refused(fake_plan(request=RequestSettings(max_tokens=400), prompts=PROMPTS[:1]), opener) == "ended_early"
    assert len(opener.requests) == 1


def test_an_output_that_does_not_repeat_is_refused():
    opener = FakeOpener()
    outputs = iter(range(100))

    def shift(session, name):
        if name == "off":
            offset = next(outputs)
            draw = type(session.context).argmax
            session.context.argmax = lambda row: (draw(session.context, row) + offset // 2) % N_VOCAB

    opener.before_request = shift
    assert refused(fake_plan(variants=(OFF,), warmups=0), opener) == "not_repeatable"


def test_an_output_unlike_plain_decoding_fails_a_gate_and_is_reported():
    opener = FakeOpener()

    def shift(session, name):
        if name != "off":
            draw = type(session.context).argmax
            session.context.argmax = lambda row: (draw(session.context, row) + 1) % N_VOCAB

    opener.before_request = shift
    report = fake_report(fake_plan(gates=Gates(rate=1e-3)), opener)
    assert not report.passed
    assert {(gate.gate, gate.variant, gate.passed) for gate in report.gates} == {
        ("equal_to_off", "mtp K=3", False),
        ("equal_to_off", "mtp K=5", False),
        ("rate", "mtp K=3", True),
        ("rate", "mtp K=5", True),
    }


def test_a_counter_that_is_wrong_is_refused():
    opener = FakeOpener()

    def lose_a_round(session, name):
        session.plan = attrs.evolve(session.plan)
        new_report = type(session)._new_report

        def wrong(prompt):
            report = new_report(session, prompt)
            report.rounds = -1
            return report

        session._new_report = wrong

    opener.before_request = lose_a_round
    assert refused(fake_plan(), opener) == "counters"


def test_a_cancelled_run_ends_everything():
    opener = FakeOpener()

    @contextmanager
    def cancel_at_once(cancel):
        for session in opener.sessions:
            session.context.before_evaluate = lambda fake: cancel() if len(opener.requests) == 8 else None
        yield

    with pytest.raises(Cancelled):
        run_fakes(fake_plan(), opener, guard=cancel_at_once)
    assert len(opener.requests) == 8


@pytest.mark.parametrize("when", ["before the call", "after the last token"])
def test_a_cancellation_is_never_lost(when: str):
    opener = FakeOpener()

    @contextmanager
    def cancel_then(cancel):
        if when == "before the call":
            cancel()
        yield
        if when == "after the last token":
            cancel()

    with pytest.raises(Cancelled):
        run_fakes(fake_plan(), opener, guard=cancel_then)
    assert len(opener.requests) == 1


def test_sessions_with_other_settings_are_no_pairs():
    record = VariantRecord(
        name="off",
        strategy="off",
        draft_max=0,
        scheduler="fixed",
        guarantee="",
        draft=None,
        settings={"ctx": 512, "snapshots": 0},
        events=(),
        load_ns=0,
        opened_bytes=None,
    )
    same = attrs.evolve(record, name="mtp", settings={"ctx": 512, "snapshots": 4})
    other = attrs.evolve(record, name="dspark", settings={"ctx": 256, "snapshots": 4})
    require_same_settings([record, same])
    with pytest.raises(BenchError, match="dspark runs with ctx 256, off with 512") as caught:
        require_same_settings([record, same, other])
    assert caught.value.rule == "settings"
    assert "--ctx" in caught.value.hint


# ------------------------------------------------------------------------------------------------------------ times


class Clock:
    """Counts its own calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return 100 * self.calls


def test_times_count_from_the_call_to_tokens_and_result():
    session = FakeOpener()(OFF, {})
    result, times = time_request(session, [1, 2, 3], RequestSettings(max_tokens=5), clock=Clock())
    assert len(result.tokens) == 5
    assert (times.first_token_ns, times.last_token_ns, times.total_ns) == (100, 200, 300)
    session.close()


@pytest.mark.parametrize("recurrent", [False, True])
def test_row_costs_cover_a_whole_slice_and_stay_inside_the_context(recurrent: bool):
    session = FakeOpener(recurrent=recurrent, ctx_tokens=40, slice_rows=4)(WIDE, {})
    costs = measure_row_costs(session, "mtp K=5", list(range(20)), samples=7, clock=Clock())
    assert [cost.rows for cost in costs.costs] == [1, 2, 3, 4]
    assert all(len(cost.samples_ns) == 7 and cost.median_ns == 100 for cost in costs.costs)
    assert costs.context_tokens == 20
    prompt = list(VOCABULARY.tokenize("after it"))
    assert list(session.generate(prompt, RequestSettings(max_tokens=9)).result().tokens) == plain_decode(
        prompt, 9, N_VOCAB
    )
    session.close()
