"""Synthetic acceptance: the profile comes out, the output stays plain decoding's, the drafter works in full."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_fakes import MTP, FakeOpener, fake_plan, fake_report
from core_sessions import N_VOCAB, drafts_with_acceptance
from hypothesis import given, settings
from hypothesis import strategies as st

from power_core import SessionSettings, open_session
from power_core.bench.synthetic import (
    AcceptanceProfile,
    SyntheticDrafter,
    open_synthetic_session,
    parse_profile,
    record_truth,
)
from power_core.drafter import DraftRequest, Proposal
from power_core.errors import ConfigError, StateError
from power_core.settings import RequestSettings
from power_core.testing.fakes import ScriptedDrafter, plain_decode
from power_core.testing.models import default_target_path
from power_core.tokens import CommittedRows

PROMPT = (4, 5, 6)
PROFILES = st.builds(
    AcceptanceProfile,
    probabilities=st.lists(st.floats(0.0, 1.0), min_size=5, max_size=8).map(tuple),
    seed=st.integers(0, 5),
)


@settings(max_examples=10, deadline=None)
@given(PROFILES, st.integers(0, 3), st.booleans())
def test_the_output_stays_that_of_plain_decoding(profile: AcceptanceProfile, own: int, recurrent: bool):
    opener = FakeOpener(lambda limit: min(own, limit), profile, recurrent=recurrent, snapshots=6)
    report = fake_report(fake_plan(profile=profile, repeats=2, warmups=0), opener)
    assert report.passed
    assert report.synthetic == profile
    for sample in report.samples:
        if sample.variant != "off":
            assert set(sample.drafted_histogram) - {0, 1, 2, 3, 4} <= {5}


@pytest.mark.parametrize(("probability", "rounds"), [(0.0, 23), (1.0, 6)])
def test_the_extremes_are_exact(probability: float, rounds: int):
    profile = AcceptanceProfile(probabilities=(probability,) * 5)
    report = fake_report(fake_plan(profile=profile), FakeOpener(profile=profile))
    assert {sample.rounds for sample in report.samples_of("mtp K=3")} == {rounds}
    assert report.summary_of("mtp K=3").acceptance_rate == probability


def test_the_profile_comes_out_by_position():
    profile = AcceptanceProfile(probabilities=(0.9, 0.5, 0.8), seed=3)
    plan = fake_plan(
        variants=fake_plan().variants[:2],
        profile=profile,
        request=RequestSettings(max_tokens=450),
        repeats=1,
        warmups=0,
    )
    report = fake_report(plan, FakeOpener(profile=profile))
    shares = report.summary_of("mtp K=3").accepted_by_position
    assert shares == pytest.approx((0.9, 0.45, 0.36), abs=0.05)


def test_luck_depends_on_seed_and_prompt_alone():
    profile = AcceptanceProfile(probabilities=(0.5, 0.5, 0.5), seed=7)
    same = AcceptanceProfile(probabilities=(0.5, 0.5, 0.5), seed=7)
    assert profile.right_drafts(PROMPT, 50).tolist() == same.right_drafts(PROMPT, 50).tolist()
    assert profile.right_drafts(PROMPT, 20).tolist() == profile.right_drafts(PROMPT, 50)[:20].tolist()
    assert profile.right_drafts(PROMPT, 50).tolist() != profile.right_drafts((4, 5), 50).tolist()
    other = AcceptanceProfile(probabilities=(0.5, 0.5, 0.5), seed=8)
    assert profile.right_drafts(PROMPT, 50).tolist() != other.right_drafts(PROMPT, 50).tolist()


def test_the_drafter_below_does_all_its_work():
    inner = ScriptedDrafter(drafts_with_acceptance(lambda limit: min(2, limit)))
    truth = {PROMPT: plain_decode(PROMPT, 20, N_VOCAB)}
    drafter = SyntheticDrafter(inner, truth, AcceptanceProfile(probabilities=(1.0,) * 4), N_VOCAB)
    drafter.begin(PROMPT)
    drafter.process(CommittedRows(start_pos=0, tokens=PROMPT))
    mark = drafter.checkpoint()
    proposal = drafter.propose(DraftRequest(n_past=3, anchor=truth[PROMPT][0], limit_tokens=4))
    assert list(proposal.tokens) == truth[PROMPT][1:5]
    drafter.process(CommittedRows(start_pos=3, tokens=truth[PROMPT][:5]))
    drafter.accept(4)
    assert inner.seen == [*PROMPT, *truth[PROMPT][:5]]
    assert inner.accepted == [4]
    drafter.restore(mark)
    assert inner.seen == list(PROMPT)
    assert inner.accepted == []
    drafter.close()
    assert inner.closed


class Shy(ScriptedDrafter):
    """Proposes two drafts, or nothing."""

    def propose(self, request: DraftRequest) -> Proposal:
        return Proposal(tokens=[1, 2] if request.n_past == 3 else [])


def test_a_drafter_learns_of_no_more_drafts_than_it_had():
    inner = Shy(lambda history, limit: [])
    truth = {PROMPT: plain_decode(PROMPT, 20, N_VOCAB)}
    drafter = SyntheticDrafter(inner, truth, AcceptanceProfile(probabilities=(1.0,) * 4), N_VOCAB)
    drafter.begin(PROMPT)
    drafter.propose(DraftRequest(n_past=3, anchor=0, limit_tokens=4))
    drafter.accept(4)
    drafter.propose(DraftRequest(n_past=8, anchor=0, limit_tokens=4))
    drafter.accept(4)
    assert inner.accepted == [2]


def test_an_unknown_prompt_is_refused():
    drafter = SyntheticDrafter(ScriptedDrafter(lambda history, limit: []), {}, parse_profile("1"), N_VOCAB)
    with pytest.raises(StateError, match="is not known"):
        drafter.begin(PROMPT)


# ----------------------------------------------------------------------------------------------------------- profiles


def test_profiles_are_lists_or_files(tmp_path: Path):
    assert parse_profile("0.9, 0.8,1e-1", seed=2) == AcceptanceProfile(probabilities=(0.9, 0.8, 0.1), seed=2)
    file = tmp_path / "profile.txt"
    file.write_text("# measured\n0.9, 0.8  # first two\n0.5\n")
    assert parse_profile(str(file)).probabilities == (0.9, 0.8, 0.5)


@pytest.mark.parametrize("text", ["", "1.5", "-0.1", "nan", "0.5,,x", "absent.txt", "0.1,1..2", ",".join(["1"] * 65)])
def test_other_texts_are_no_profiles(text: str):
    with pytest.raises(ConfigError) as caught:
        parse_profile(text)
    assert caught.value.field == "synthetic_acceptance"


@pytest.mark.parametrize("seed", [-1, 0.5, True])
def test_a_seed_is_a_whole_number(seed: object):
    with pytest.raises(ConfigError):
        AcceptanceProfile(probabilities=(1.0,), seed=seed)


# ------------------------------------------------------------------------------------------------------------- native


@pytest.mark.native
def test_a_real_session_follows_the_profile_and_says_so():
    model = default_target_path()
    base = SessionSettings(model=model, spec="off", ctx=256, threads=1)
    with open_session(base) as plain:
        prompt = plain.model.vocabulary.tokenize("def fibonacci(n):\n")
        truth = record_truth(plain, [prompt], 60)
    profile = AcceptanceProfile(probabilities=(1.0, 1.0, 0.0))
    settings_mtp = SessionSettings(model=model, spec="mtp", draft_max=3, ctx=256, threads=1)
    with open_synthetic_session(settings_mtp, truth, profile) as session:
        result = session.generate(prompt, max_tokens=60).result()
    assert list(result.tokens) == truth[tuple(prompt)]
    assert max(result.report.accepted_prefix_histogram) == 2
    assert result.report.accepted_prefix_histogram[2] >= result.report.rounds - 1
    (event,) = [event for event in result.report.events if event["event"] == "synthetic_acceptance"]
    assert event["probabilities"] == [1.0, 1.0, 0.0]


@pytest.mark.native
def test_a_profile_too_short_for_the_width_is_refused():
    wide = MTP.settings
    with pytest.raises(ConfigError, match="has 2 positions"):
        open_synthetic_session(
            SessionSettings(model=default_target_path(), spec=wide.spec, draft_max=3, ctx=64, threads=1),
            {},
            AcceptanceProfile(probabilities=(1.0, 1.0)),
        )
