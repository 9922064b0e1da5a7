"""DRAFT: what a proposal is, what it may depend on, and what reaches the drafter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_contract.assertions import check_that
from power_contract.bench import Bench
from power_contract.clauses import clause
from power_contract.comparing import shown
from power_contract.histories import HistoryCounts
from power_contract.opening import open_bench
from power_contract.oracle import evaluate_next
from power_contract.strategies import acceptances, repeated_tokens
from power_contract.subject import ContractSubject
from power_core.drafter import Proposal
from power_core.testing.tiny_weights import TargetKind
from power_core.tokens import CommittedRows, Taps

GENERATED = 20
CHUNKS = (1, 3, 16, 31)


def fed(bench: Bench, salt: int = 0, seq_id: int = 0) -> list[int]:
    """Feed a prompt and generated tokens in which pieces repeat; return anchors worth asking after."""
    prompt = [*bench.prompt(30, salt), *(token % bench.n_vocab for token in repeated_tokens(20, salt))]
    generated = [token % bench.n_vocab for token in repeated_tokens(GENERATED, salt + 2)]
    bench.feed_committed(prompt, generated, seq_id)
    following = repeated_tokens(GENERATED + 1, salt + 2)[-1]
    return [following % bench.n_vocab, 3, 250 % bench.n_vocab]


@clause("DRAFT-01")
def test_a_proposal_has_at_most_the_tokens_that_were_asked_for(subject: ContractSubject, bench_kind: str) -> None:
    with open_bench(subject, bench_kind) as bench:
        for anchor in fed(bench):
            for limit in range(1, bench.settings.draft_max + 1):
                proposal = bench.ask(anchor, limit=limit)
                what = f"the proposal after {anchor} with limit_tokens {limit}"
                check_that(isinstance(proposal, Proposal), what, expected="a Proposal", actual=proposal)
                check_that(proposal.seq_id == 0, what, expected="sequence 0", actual=proposal.seq_id)
                check_that(len(proposal.tokens) <= limit, what, expected=f"<= {limit} tokens", actual=proposal.tokens)


@clause("DRAFT-02")
def test_every_draft_is_a_token_of_the_vocabulary(subject: ContractSubject, bench_kind: str) -> None:
    drafted = 0
    with open_bench(subject, bench_kind) as bench:
        for salt in range(3):
            for anchor in fed(bench, salt):
                tokens = list(bench.ask(anchor).tokens)
                drafted += len(tokens)
                right = all(isinstance(token, int) and 0 <= token < bench.n_vocab for token in tokens)
                check_that(right, "the drafts", expected=f"ids 0..{bench.n_vocab - 1}", actual=tokens)
    check_that(drafted > 0, "a drafter that never drafts", expected="drafts where pieces repeat", actual="none")


@clause("DRAFT-03")
def test_the_same_rows_and_request_give_the_same_drafts(subject: ContractSubject, bench_kind: str) -> None:
    with open_bench(subject, bench_kind) as bench, bench.twin() as twin:
        anchors = fed(bench)
        fed(twin)
        first = [shown(bench.ask(anchor)) for anchor in anchors]
        bench.equal("the drafts of the same drafter, asked again", [shown(bench.ask(each)) for each in anchors], first)
        bench.equal("the drafts of another drafter", [shown(twin.ask(each)) for each in anchors], first)


@clause("DRAFT-04")
def test_drafts_do_not_depend_on_the_chunks_in_which_rows_came(subject: ContractSubject, bench_kind: str) -> None:
    with open_bench(subject, bench_kind) as bench:
        tokens = [*bench.prompt(40), *(token % bench.n_vocab for token in repeated_tokens(27))]
        found = {}
        for chunk in CHUNKS:
            bench.target.clear()
            bench.own.begin(tokens[:-8])
            for at in range(0, len(tokens), chunk):
                piece = tokens[at : at + chunk]
                evaluate_next(bench.target, piece)
                taps = bench.target.read_taps(0, len(piece)) if bench.settings.context.taps else None
                bench.own.process(CommittedRows(start_pos=at, tokens=piece, taps=taps))
            found[chunk] = [shown(bench.ask(anchor)) for anchor in (3, tokens[-6])]
        drafted = any(drafts for drafts, _ in found[CHUNKS[0]])
        check_that(drafted, "drafts after repeated tokens", expected="some", actual="none")
        for chunk in CHUNKS[1:]:
            bench.equal(f"the drafts after chunks of {chunk} rows", found[chunk], found[CHUNKS[0]])


@clause("DRAFT-05")
@given(asked=st.lists(st.tuples(st.integers(0, 511), st.integers(1, 4)), min_size=1, max_size=4))
def test_proposing_leaves_no_trace(subject: ContractSubject, bench_kind: str, asked: list[tuple[int, int]]) -> None:
    with open_bench(subject, bench_kind) as bench, bench.twin() as quiet, bench.twin() as silent:
        anchors = fed(bench)
        for one in (quiet, silent):
            fed(one)
        for anchor, limit in [*asked, *((anchor, 1) for anchor in anchors)]:
            proposal = bench.ask(anchor, limit=min(limit, bench.settings.draft_max))
            if proposal.tokens:
                bench.own.accept(0)
        for anchor in anchors:
            bench.equal("the drafts after other proposals", shown(bench.ask(anchor)), shown(quiet.ask(anchor)))
        for one in (bench, silent):
            feed_more(one, anchors[:1])
        for anchor in anchors:
            bench.equal("the drafts one row later", shown(bench.ask(anchor)), shown(silent.ask(anchor)))


def feed_more(bench: Bench, tokens: list[int]) -> None:
    """Commit further rows."""
    at = bench.target.length_tokens()
    evaluate_next(bench.target, tokens)
    taps = bench.target.read_taps(0, len(tokens)) if bench.settings.context.taps else None
    bench.own.process(CommittedRows(start_pos=at, tokens=tokens, taps=taps))


@clause("DRAFT-06")
def test_a_threshold_ends_the_proposal_before_the_first_unlikely_draft(
    subject: ContractSubject, bench_kind: str
) -> None:
    with open_bench(subject, bench_kind) as bench:
        for anchor in fed(bench):
            whole = bench.ask(anchor)
            confidence = np.asarray(whole.confidence)
            check_that(
                confidence.dtype == np.float32 and confidence.shape == (len(whole.tokens),),
                "the confidences",
                expected=f"float32[{len(whole.tokens)}]",
                actual=whole.confidence,
            )
            check_that(
                bool(np.all((confidence >= 0) & (confidence <= 1))),
                "the confidences",
                expected="0..1",
                actual=confidence,
            )
            for value in confidence:
                p_min = float(min(np.nextafter(value, np.float32(2)), np.float32(1)))
                kept = next((at for at, each in enumerate(confidence) if each < p_min), len(confidence))
                found = list(bench.ask(anchor, p_min=p_min).tokens)
                bench.equal(f"the drafts with p_min {p_min}", found, list(whole.tokens[:kept]))


@clause("DRAFT-07")
@given(data=st.data())
def test_after_any_acceptance_the_next_drafts_are_a_fresh_drafters(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, data: st.DataObject
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(data.draw(st.sampled_from((9, 33, 50)), label="prompt tokens")))
        for accepted in data.draw(acceptances(bench.settings.draft_max), label="accepted"):
            bench.round(accepted)
        bench.check_history()
        bench.check_drafter()


@clause("DRAFT-08")
def test_sequences_on_one_drafter_do_not_see_each_other(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, sequences=3, counts=histories) as bench:
        for seq_id in range(3):
            bench.start(bench.prompt(20 + 13 * seq_id, salt=seq_id), seq_id)
        most = bench.settings.draft_max
        for step in range(4):
            for seq_id in (2, 0, 1):
                bench.round((step * (seq_id + 1) + seq_id) % (most + 1), seq_id)
        for seq_id in range(3):
            bench.check_history(seq_id)
            bench.check_drafter(seq_id)


@clause("DRAFT-09")
@pytest.mark.parametrize("slices", ["one", "two rows"])
def test_every_committed_row_arrives_once_in_order_with_its_hidden_rows(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, slices: str
) -> None:
    slice_rows = 2 if slices == "two rows" else None
    with open_bench(subject, bench_kind, slice_rows=slice_rows, counts=histories) as bench:
        line = bench.start(bench.prompt(50))
        for accepted in (1, 0, bench.settings.draft_max, 2, None):
            bench.round(accepted)
        fed_rows = [call.arguments[0] for call in bench.journal.calls if str(call) == "drafter.process"]
        expected_taps = bench.oracle.replay(line.prompt, line.committed)
        bench.equal("the fed tokens", [t for rows in fed_rows for t in rows.tokens], line.sequence.history[:-1])
        lengths = [len(rows.tokens) for rows in fed_rows]
        starts = [sum(lengths[:at]) for at in range(len(lengths))]
        bench.equal("the positions of the fed rows", [rows.start_pos for rows in fed_rows], starts)
        for name in ("nextn", "layers"):
            check_taps(bench, name, [rows.taps for rows in fed_rows], expected_taps)


def check_taps(bench: Bench, name: str, found: list[Taps | None], expected: list[Taps]) -> None:
    """Require the hidden rows of a replay, bit for bit, where the drafter asked for them."""
    wanted = [getattr(taps, name) for taps in expected]
    if wanted[0] is None:
        return
    rows = [getattr(taps, name) for taps in found]
    ours: Any = np.concatenate([each for each in rows if each is not None])
    theirs = np.concatenate(wanted)
    wrong = [at for at in range(len(theirs)) if at >= len(ours) or not np.array_equal(ours[at], theirs[at])]
    check_that(
        not wrong,
        f"the `{name}` rows",
        expected="those of a replay",
        actual=f"others at {wrong[:8]}",
        history=bench.told,
    )


@clause("DRAFT-10")
def test_accept_is_called_once_after_each_proposal_with_drafts(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        bench.start(bench.prompt(20))
        most = bench.settings.draft_max
        for plan, expected in ((0, [0]), (most, [most]), (1, [1]), ((), [])):
            since = len(bench.journal.calls)
            bench.round(plan)
            calls = [call.arguments[0] for call in bench.journal.calls[since:] if str(call) == "drafter.accept"]
            bench.equal("the calls of accept()", calls, expected)


@clause("DRAFT-11")
def test_near_the_end_of_the_context_a_proposal_still_fits(subject: ContractSubject, bench_kind: str) -> None:
    with open_bench(subject, bench_kind, ctx=64) as bench:
        bench.start(bench.prompt(64 - 2 * bench.settings.draft_max))
        while bench.room_tokens() >= 0:
            if 0 < bench.room_tokens() <= bench.settings.draft_max:
                bench.check_drafter()
            bench.round(1)
            bench.check_history()
        bench.equal("the rows in the target's memory", bench.target.length_tokens(), 64)


@clause("DRAFT-13")
@given(data=st.data())
def test_when_the_target_follows_own_drafts_the_next_ones_are_a_fresh_drafters(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts, data: st.DataObject
) -> None:
    with open_bench(subject, bench_kind, willing=True, counts=histories) as bench:
        most, proposed = bench.settings.draft_max, 0
        bench.start(bench.prompt(data.draw(st.sampled_from((12, 33)), label="prompt tokens")))
        bench.round(1)
        wanted = st.lists(st.integers(0, most), max_size=4)
        for followed in [most, *data.draw(wanted, label="drafts that the target follows"), most]:
            bench.follow(followed)
            block = bench.round(None)
            own = len(bench.drafter.own[-1].tokens)
            bench.equal("the accepted tokens", block.accepted_tokens, min(followed, own))
            proposed += own
            bench.check_drafter()
        check_that(proposed > 0, "own drafts where the target repeats the prompt", expected="some", actual="none")
        bench.check_history()
        bench.check_memory()
        bench.check_behaviour()


@clause("DRAFT-12")
def test_drafts_are_the_known_ones(subject: ContractSubject, target_kind: TargetKind) -> None:
    assert subject.known_drafts is not None
    with open_bench(subject, target_kind) as bench:
        for known in subject.known_drafts(target_kind):
            bench.feed_committed(known.prompt, known.generated)
            found = list(bench.ask(known.anchor).tokens[: len(known.tokens) or None])
            bench.equal(f"the drafts after {known.anchor}", found, list(known.tokens))
