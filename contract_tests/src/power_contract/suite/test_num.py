"""NUM: the figures of the report, recomputed from what the drafter and the target were asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import attrs
import pytest

from power_contract.assertions import check_equal, check_that
from power_contract.calls import watched_evaluations, watched_schedulers
from power_contract.clauses import clause
from power_contract.loading import subject_strategy
from power_contract.noise import noisy_rows
from power_contract.prompts import repeating_prompt
from power_contract.sessions import Scripted, open_subject_session
from power_contract.subject import ContractSubject
from power_contract.trace import Traced, TracedRound
from power_core.generation import TokenPiece
from power_core.report import GenerationResult, Report

PROMPT = repeating_prompt(8, 20)
TOKENS = 40
MANY_TOKENS = 60
SCRIPTS: tuple[Scripted, ...] = (None, "zero", "partial", "full")


@attrs.frozen(kw_only=True)
class Measured:
    """A request, and the independent account of it.

    Attributes:
        result: What it returned.
        pieces: What it handed out.
        token_bytes: Bytes of its tokens, as the vocabulary has them.
        committed_tokens: Tokens in the target's memory afterwards, without the prompt's.
        rounds: What was asked of the drafter.
        positions: What was asked of the target.
    """

    result: GenerationResult
    pieces: list[TokenPiece]
    token_bytes: bytes
    committed_tokens: int
    rounds: list[TracedRound]
    positions: list[range]

    @property
    def report(self) -> Report:
        """The report under test."""
        return self.result.report

    @property
    def drafted(self) -> list[TracedRound]:
        """Rounds that had drafts."""
        return [each for each in self.rounds if each.proposed]


def measured(subject: ContractSubject, target_kind: str, scripted: Scripted, stop: tuple[str, ...] = ()) -> Measured:
    """Run one request and keep the account of it."""
    traced = Traced()
    with (
        open_subject_session(subject, target_kind, scripted=scripted, on_drafter=traced) as session,
        watched_evaluations(session.context) as evaluations,
    ):
        request = session.generate(PROMPT, max_tokens=TOKENS, stop=stop)
        pieces = list(request)
        result = request.result()
        return Measured(
            result=result,
            pieces=pieces,
            token_bytes=b"".join(session.model.vocabulary.token_bytes(token) for token in result.tokens),
            committed_tokens=len(session.committed_tokens) - len(PROMPT),
            rounds=traced.rounds,
            positions=evaluations.positions,
        )


Runs: TypeAlias = Callable[[str, str | None], Measured]


@pytest.fixture(scope="module")
def runs(subject: ContractSubject) -> Runs:
    """Return the account of a request on a target kind with drafts of a kind; each is run once."""
    return cache(lambda target_kind, scripted: measured(subject, target_kind, scripted))


@pytest.fixture(params=SCRIPTS, ids=str)
def run(runs: Runs, target_kind: str, request: pytest.FixtureRequest) -> Measured:
    """The account of each of these requests."""
    return runs(target_kind, request.param)


@clause("NUM-01")
def test_counts_of_drafts(run: Measured) -> None:
    report, accepted = run.report, [each.accepted or 0 for each in run.rounds]
    limits = [0 if each.request is None else each.request.limit_tokens for each in run.rounds]
    rejected = [len(each.proposed) - (each.accepted or 0) for each in run.drafted]
    found = (
        report.rounds,
        report.drafted_tokens,
        report.accepted_tokens,
        report.accepted_prefix_histogram,
        report.draft_limit_histogram,
        report.max_rejected_tokens,
    )
    expected = (
        len(run.rounds),
        sum(len(each.proposed) for each in run.drafted),
        sum(accepted),
        dict(Counter(accepted)),
        dict(Counter(limits)),
        max(rejected, default=0),
    )
    check_equal("rounds, drafted, accepted, both histograms and the longest rejected suffix", found, expected)
    kept = [each.kept_rows - 1 for each in run.rounds]
    check_equal("accepted drafts of every round, by the rows that were committed", kept, accepted)


@clause("NUM-02")
def test_each_round_adds_one_token_of_the_targets_own(run: Measured) -> None:
    check_equal("verified tokens, by the history", run.report.verified_tokens, run.committed_tokens)
    check_equal("verified tokens", run.report.verified_tokens, run.report.accepted_tokens + run.report.rounds)


@clause("NUM-02")
@pytest.mark.parametrize("scripted", ["zero", "full"])
def test_a_round_that_ends_at_a_stop_adds_none(
    subject: ContractSubject, target_kind: str, runs: Runs, scripted: Scripted
) -> None:
    text = runs(target_kind, None).result.text
    triples = (text[at : at + 3] for at in range(len(text) // 2, len(text) - 3))
    stop = next(triple for triple in triples if triple.isascii())
    run = measured(subject, target_kind, scripted, (stop,))
    check_equal("the end of a request with a stop string", run.result.finish_reason, "stop_string")
    check_equal("verified tokens, by the history", run.report.verified_tokens, run.committed_tokens)
    own = run.report.verified_tokens - run.report.accepted_tokens
    allowed = (run.report.rounds, run.report.rounds - 1) if run.report.accepted_tokens else (run.report.rounds,)
    check_that(own in allowed, "tokens of the target's own", expected=f"one of {allowed}", actual=own)


@clause("NUM-03")
def test_tokens_pieces_and_text_agree(run: Measured) -> None:
    result, pieces = run.result, run.pieces
    tokens = [each.token for each in pieces if each.token is not None]
    check_equal("the tokens of the pieces", tokens, list(result.tokens))
    check_equal("the number of emitted tokens", result.report.emitted_tokens, len(result.tokens))
    check_equal("the text of the pieces", "".join(each.text for each in pieces), result.text)
    check_equal("the text of the tokens", run.token_bytes.decode("utf-8", "replace"), result.text)
    check_equal("the number of prompt tokens", result.report.prompt_tokens, len(PROMPT))


@clause("NUM-04")
def test_target_calls_are_the_evaluations(run: Measured) -> None:
    calls = len([each for each in run.positions if each.start >= len(PROMPT)])
    check_equal("target calls", run.report.target_calls, calls)
    check_equal("target passes", run.report.target_passes, run.report.rounds)
    fewest, most = run.report.rounds, sum(1 + len(each.proposed) for each in run.rounds)
    check_that(fewest <= calls <= most, "target calls", expected=f"{fewest} to {most}", actual=calls)


@clause("NUM-05")
def test_rates_and_times(run: Measured) -> None:
    report, times = run.report, run.report.timings_ns
    drafted = report.drafted_tokens
    check_equal("the acceptance rate", report.acceptance_rate, report.accepted_tokens / drafted if drafted else 0.0)
    check_equal("tokens per target pass", report.tokens_per_target_pass, report.verified_tokens / report.rounds)
    decode_s = (times.total - times.prefill) / 1e9
    check_that(
        abs(report.tokens_per_second * decode_s - report.emitted_tokens) < 1e-6,
        "tokens per second",
        expected=report.emitted_tokens / decode_s,
        actual=report.tokens_per_second,
    )
    parts = (times.prefill, times.draft, times.verify, times.sample)
    fits = min(parts) >= 0 and times.prefill > 0 and times.verify > 0 and sum(parts) <= times.total
    check_that(fits, "prefill, draft, verify and sample", expected=f"within {times.total} ns", actual=parts)


@clause("NUM-06")
@pytest.mark.parametrize("scripted", ["zero", "partial"])
def test_every_change_of_the_width_is_told(subject: ContractSubject, target_kind: str, scripted: Scripted) -> None:
    for scheduler in subject_strategy(subject).schedulers:
        settings: dict[str, Any] = {"scheduler": scheduler, "scripted": scripted}
        with watched_schedulers() as outcomes, open_subject_session(subject, target_kind, **settings) as session:
            report = session.generate(PROMPT, max_tokens=MANY_TOKENS).result().report
        check_that(len(report.decisions) <= 256, "decisions", expected="at most 256", actual=len(report.decisions))
        widths = [(0, session.plan.draft_max), *((each["round"], each["width"]) for each in report.decisions)]
        for at, each in enumerate(outcomes):
            width = next(width for since, width in reversed(widths) if since <= at)
            what = f"the limit of round {at} with scheduler {scheduler}, by the decisions before it"
            check_that(each.asked_tokens <= width, what, expected=f"at most {width}", actual=each.asked_tokens)
        final = [event["draft_limit"] for event in report.events if event["event"] == "scheduler"]
        told = final in ([], [widths[-1][1]])
        check_that(told, "final decisions among the events", expected=f"none, or {widths[-1][1]}", actual=final)


@clause("NUM-07")
def test_the_guarantee_covers_every_slice(subject: ContractSubject, target_kind: str) -> None:
    for slice_rows in (None, 2, "all"):
        with (
            open_subject_session(subject, target_kind, scripted="full", verify_rows=slice_rows) as session,
            watched_evaluations(session.context) as evaluations,
        ):
            report = session.generate(PROMPT, max_tokens=TOKENS).result().report
        claimed = re.fullmatch(r"bit-identical\((\d+)\)", report.guarantee)
        if claimed is None:
            weaker = report.guarantee in ("margin-guarded", "target-authoritative")
            check_that(weaker, "the guarantee", expected="one of three", actual=report.guarantee)
            continue
        rows = evaluations.widest_after(len(PROMPT))
        what = f"the rows of a slice under {report.guarantee}"
        check_that(rows <= int(claimed[1]), what, expected=f"at most {claimed[1]}", actual=rows)
        measured = report.probe is not None and report.probe.widest_rows >= int(claimed[1])
        check_that(measured, f"what {report.guarantee} rests on", expected="as many rows measured", actual=report.probe)


@clause("NUM-08")
@pytest.mark.parametrize("arithmetic", ["exact", "guarded", "fast"])
def test_nothing_is_claimed_that_was_not_measured(
    subject: ContractSubject, target_kind: str, arithmetic: str, unmeasured: None
) -> None:
    with open_subject_session(subject, target_kind, spec="off", draft=None) as session:
        kind = type(session.context)
    settings: dict[str, Any] = {"scripted": "full", "arithmetic": arithmetic, "verify_rows": 4}
    with noisy_rows(kind, exact_rows=2, size=1e-3), open_subject_session(subject, target_kind, **settings) as session:
        for temperature in (0.0, 1.0):
            report = session.generate(PROMPT, max_tokens=TOKENS, temperature=temperature).result().report
            allowed = {"bit-identical(1)", "bit-identical(2)"} if arithmetic != "fast" else set()
            allowed |= {"margin-guarded"} if arithmetic != "fast" and temperature == 0.0 else set()
            allowed.add("target-authoritative")
            what = f"what {arithmetic} arithmetic claims at temperature {temperature} where three rows are not one"
            check_that(report.guarantee in allowed, what, expected=sorted(allowed), actual=report.guarantee)
