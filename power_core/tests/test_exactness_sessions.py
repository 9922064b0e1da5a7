"""Sessions on arithmetic with planted faults: slices, guard and claim follow what was measured, and where."""

from __future__ import annotations

import itertools
import json

import pytest
from core_sessions import N_VOCAB, PROMPT, drafts_with_acceptance, random_acceptance
from noisy_targets import exact_up_to, near_ties, noisy_context, open_noisy_session

from power_core.errors import Cancelled
from power_core.exactness.cache import ProbeCache
from power_core.exactness.probe import ProbeCell, ProbeTable
from power_core.testing.fakes import ScriptedDrafter, plain_decode

TOKENS = 120


def drafter():
    return ScriptedDrafter(random_acceptance(1))


def widths(session):
    """The widest evaluation with decode rows after the prompt of the last request."""
    calls = noisy_context(session).evaluations
    return max(len(rows.tokens) for call in calls for rows in call if rows.logits == "all")


def run(session, prompt=PROMPT, max_tokens=TOKENS, **sampling):
    noisy_context(session).evaluations.clear()
    return session.generate(prompt, max_tokens=max_tokens, **sampling).result()


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("widest", [2, 3, 4])
def test_exact_narrows_its_slices_to_what_was_measured(widest, recurrent):
    with open_noisy_session(drafter(), exact_up_to(widest), recurrent=recurrent) as session:
        assert session.plan.slice_rows == widest
        result = run(session)
        assert widths(session) == widest
    assert list(result.tokens) == plain_decode(PROMPT, TOKENS, N_VOCAB)
    assert result.report.guarantee == f"bit-identical({widest})"
    assert result.report.probe.widest_rows == widest
    (event,) = [event for event in result.report.events if event["event"] == "probe"]
    assert (event["round"], event["widest_rows"], event["largest_difference"]) == (0, widest, 2**-8)


def test_without_narrowing_the_output_would_differ():
    """The planted noise matters: fast arithmetic on the same target leaves plain decoding."""
    with open_noisy_session(drafter(), exact_up_to(2), arithmetic="fast") as session:
        result = run(session)
    assert list(result.tokens) != plain_decode(PROMPT, TOKENS, N_VOCAB)
    assert result.report.guarantee == "target-authoritative"
    assert result.report.probe.largest_difference == 2**-8


def test_an_exact_backend_gets_its_full_width_and_no_event():
    with open_noisy_session(drafter(), exact_up_to(9)) as session:
        result = run(session)
        assert widths(session) == 5
    assert result.report.guarantee == "bit-identical(5)"
    assert [event["event"] for event in result.report.events] == []
    assert result.report.probe.depths_tokens == (64,)


def test_a_fault_deeper_in_the_context_is_met_before_the_first_slice_there():
    """Up to 256 tokens five rows are exact, beyond only two."""
    noise = lambda depth, rows: 2**-8 if depth + rows > 256 and rows > 2 else 0.0  # noqa: E731
    with open_noisy_session(drafter(), noise) as session:
        result = run(session, max_tokens=400)
        deep = [
            len(rows.tokens)
            for call in noisy_context(session).evaluations
            for rows in call
            if rows.logits == "all" and rows.start_pos >= 320
        ]
        assert max(deep) == 2
        again = run(session, max_tokens=40)
        assert widths(session) == 5
    assert list(result.tokens) == plain_decode(PROMPT, 400, N_VOCAB)
    assert result.report.guarantee == "bit-identical(2)"
    assert [event["widest_rows"] for event in result.report.events if event["event"] == "probe"] == [2]
    assert result.report.probe.depths_tokens[1] in (255, 256)
    assert again.report.guarantee == "bit-identical(5)"


def test_slices_that_cross_the_step_are_measured_where_they_do():
    prompt = PROMPT * 12
    noise = lambda depth, rows: 2**-8 if rows > 2 and depth < 256 < depth + rows else 0.0  # noqa: E731
    with open_noisy_session(drafter(), noise) as session:
        result = run(session, prompt)
    assert list(result.tokens) == plain_decode(prompt, TOKENS, N_VOCAB)
    assert result.report.probe.depths_tokens[:2] == (64, 255)
    assert result.report.guarantee == "bit-identical(2)"


@pytest.mark.parametrize("prompt_tokens", [244, 248, 250])
@pytest.mark.parametrize("recurrent", [False, True])
def test_later_slices_of_a_block_are_measured_before_the_block_is_evaluated(monkeypatch, prompt_tokens, recurrent):
    """Beyond 256 tokens only two rows are exact, and blocks of 16 rows begin before that."""
    prompt = (PROMPT * 12)[:prompt_tokens]
    noise = lambda depth, rows: 2**-8 if depth >= 256 and rows > 2 else 0.0  # noqa: E731
    right = ScriptedDrafter(drafts_with_acceptance(lambda limit: limit))
    wide = []
    with open_noisy_session(right, noise, draft_max=15, slice_rows=8, recurrent=recurrent) as session:
        evaluate = noisy_context(session).evaluate

        def noted(sequences, *, kernels):
            if session._parts.open_transaction is not None and sequences[0].start_pos >= 256:
                wide.append(len(sequences[0].tokens))
            evaluate(sequences, kernels=kernels)

        monkeypatch.setattr(session.context, "evaluate", noted)
        result = run(session, prompt, max_tokens=60)
    assert list(result.tokens) == plain_decode(prompt, 60, N_VOCAB)
    assert max(wide) == 2
    assert result.report.guarantee == "bit-identical(2)"
    assert result.report.accepted_tokens > 40


def test_a_long_prompt_is_measured_at_its_own_depth():
    prompt = PROMPT * 40
    with open_noisy_session(drafter(), lambda depth, rows: 2**-8 if depth > 600 and rows > 3 else 0.0) as session:
        result = run(session, prompt)
    assert list(result.tokens) == plain_decode(prompt, TOKENS, N_VOCAB)
    assert result.report.guarantee == "bit-identical(3)"
    assert result.report.probe.depths_tokens == (64, len(prompt))


@pytest.mark.parametrize("arithmetic", ["exact", "guarded"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_near_ties_are_decided_as_plain_decoding_decides_them(arithmetic, recurrent):
    own = drafter()
    with open_noisy_session(own, exact_up_to(1), arithmetic=arithmetic, recurrent=recurrent) as session:
        result = run(session)
        committed = [*PROMPT, *result.tokens]
        assert noisy_context(session).tokens() == committed[: len(noisy_context(session).tokens())]
        assert own.seen == noisy_context(session).tokens()
        assert widths(session) == 5
    report = result.report
    assert list(result.tokens) == plain_decode(PROMPT, TOKENS, N_VOCAB)
    assert report.guarantee == "margin-guarded"
    assert report.guarded_rows > 10
    assert report.guard_calls >= report.guarded_rows
    assert report.target_calls > report.guard_calls
    assert report.timings_ns.guard > 0
    assert (report.copied_bytes > 0) is recurrent
    assert report.replays == 0


def test_taps_of_rows_decided_again_are_those_of_the_committed_rows():
    own = drafter()
    with open_noisy_session(own, exact_up_to(1), arithmetic="guarded", taps=True) as session:
        result = run(session)
    assert result.report.guarded_rows > 10
    rows = [row for taps in own.taps for row in taps.nextn]
    assert [int(row[1]) for row in rows] == list(range(len(own.seen)))
    assert [int(row[2]) for row in rows] == own.seen


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("abort", [False, True])
def test_a_round_interrupted_while_rows_are_decided_again_loses_nothing(recurrent, abort):
    """Every evaluation of 30 tokens fails once, those of the guard included."""
    faults = 0
    for fails_at in range(1, 200):
        own = drafter()
        with open_noisy_session(own, exact_up_to(1), arithmetic="guarded", taps=True, recurrent=recurrent) as session:
            context, calls = noisy_context(session), itertools.count()

            def fail(context, calls=calls, fails_at=fails_at):
                if next(calls) == fails_at:
                    context.abort_after_rows = 0 if abort else None
                    if not abort:
                        raise Cancelled()

            context.before_evaluate = fail
            first = run(session, max_tokens=30, logprobs=1)
            if first.finish_reason != "cancelled":
                break
            faults += 1
            context.abort_after_rows = None
            rest = session.resume(max_tokens=30 - len(first.tokens)).result()
            assert [*first.tokens, *rest.tokens] == plain_decode(PROMPT, 30, N_VOCAB)
            assert [each.token for each in (*first.logprobs, *rest.logprobs)] == [*first.tokens, *rest.tokens]
            assert own.seen == context.tokens()
            assert [int(row[2]) for taps in own.taps for row in taps.nextn] == own.seen
    assert faults > 30


def test_the_guard_asks_no_more_than_it_must():
    """Clear choices are drawn from the slice: a target without near-ties has no row decided again."""
    with open_noisy_session(drafter(), exact_up_to(1), arithmetic="guarded", margins=lambda history: 0.5) as session:
        result = run(session)
    assert result.report.guarantee == "margin-guarded"
    assert (result.report.guarded_rows, result.report.guard_calls) == (0, 0)


def test_noise_that_the_probe_did_not_see_is_the_risk_that_remains():
    """The threshold is a multiple of measured noise: rows with a hundred times as much are not all caught."""
    quiet = exact_up_to(1, 2**-14)
    with open_noisy_session(drafter(), quiet, arithmetic="guarded") as session:
        noisy_context(session).noise = exact_up_to(1, 2**-7)
        result = run(session)
    assert result.report.guarded_rows == 0
    assert list(result.tokens) != plain_decode(PROMPT, TOKENS, N_VOCAB)


@pytest.mark.parametrize(
    ("arithmetic", "guarantee"), [("exact", "bit-identical(1)"), ("guarded", "target-authoritative")]
)
def test_sampled_requests_are_not_guarded(arithmetic, guarantee):
    with open_noisy_session(drafter(), exact_up_to(1), arithmetic=arithmetic) as session:
        assert session.plan.guarantee == "margin-guarded"
        result = run(session, temperature=0.7)
        assert widths(session) == (1 if arithmetic == "exact" else 5)
        assert result.report.guarantee == guarantee
        assert result.report.guarded_rows == 0
        assert run(session).report.guarantee == "margin-guarded"


def test_a_guard_that_turns_out_to_be_needed_deeper_in_starts_there():
    noise = lambda depth, rows: 2**-8 if depth + rows > 256 and rows > 1 else 0.0  # noqa: E731
    with open_noisy_session(drafter(), noise, recurrent=True) as session:
        result = run(session, max_tokens=400)
    assert list(result.tokens) == plain_decode(PROMPT, 400, N_VOCAB)
    assert result.report.guarantee == "margin-guarded"
    assert result.report.guarded_rows > 0


def test_what_one_session_measured_the_next_one_knows(tmp_path, monkeypatch):
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))
    cache = ProbeCache(key={"model": "m"})
    with open_noisy_session(drafter(), exact_up_to(3), cache=cache) as session:
        first = run(session, max_tokens=300)
    counted = len(cache.load().cells)
    assert counted == 5 * len(first.report.probe.depths_tokens)
    with open_noisy_session(drafter(), exact_up_to(3), cache=cache) as session:
        assert noisy_context(session).evaluations == []
        second = run(session, max_tokens=300)
        calls = len(noisy_context(session).evaluations)
        assert second.report.target_calls == calls - 1
    assert len(cache.load().cells) == counted
    assert second.report.guarantee == first.report.guarantee
    assert second.report.probe == first.report.probe


def test_a_wider_session_measures_only_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))
    cache = ProbeCache(key={"model": "m"})
    cells = [ProbeCell(depth_tokens=64, rows=rows, difference=0.0) for rows in (1, 2, 3)]
    cache.store(ProbeTable(cells=tuple(cells)))
    with open_noisy_session(drafter(), exact_up_to(9), cache=cache) as session:
        slices = [len(rows.tokens) for (rows,) in noisy_context(session).evaluations if rows.logits == "all"]
    assert slices == [1, 1, 1, 1, 1, 4, 5]


def test_a_cache_that_cannot_be_written_is_an_event(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path / "file"))
    with open_noisy_session(drafter(), exact_up_to(9), cache=ProbeCache(key={"model": "m"})) as session:
        result = run(session)
    assert result.report.guarantee == "bit-identical(5)"
    (event,) = result.report.events
    assert event["event"] == "probe_not_kept"
    assert "cannot be made" in event["detail"]


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_probe_that_is_interrupted_loses_nothing(recurrent):
    """The first round beyond 256 tokens is cancelled inside the measurement; the request goes on afterwards."""
    with open_noisy_session(drafter(), exact_up_to(9), recurrent=recurrent) as session:
        context = noisy_context(session)

        def stop(context):
            if context.length_tokens() >= 254:
                context.before_evaluate = None
                raise Cancelled()

        context.before_evaluate = stop
        first = run(session, max_tokens=300)
        assert first.finish_reason == "cancelled"
        rest = session.resume(max_tokens=300 - len(first.tokens)).result()
    assert [*first.tokens, *rest.tokens] == plain_decode(PROMPT, 300, N_VOCAB)
    assert rest.report.guarantee == "bit-identical(5)"


def test_the_report_shows_what_the_claim_rests_on_as_json():
    with open_noisy_session(drafter(), exact_up_to(1), arithmetic="guarded") as session:
        values = json.loads(json.dumps(run(session).to_dict()))["report"]
    assert values["guarantee"] == "margin-guarded"
    assert values["probe"] == {"widest_rows": 1, "depths_tokens": [64], "largest_difference": 2**-8}
    assert values["guarded_rows"] > 0
    assert {"guarded_rows", "guard_calls"} <= set(values)
    assert {"guard", "probe"} <= set(values["timings_ns"])


def test_near_ties_are_near_enough_to_matter():
    assert {near_ties([token]) for token in range(40)} == {2**-10, 0.5}
