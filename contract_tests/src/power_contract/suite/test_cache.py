"""CACHE: memories go back exactly or say that they cannot; capacity, windows, sequences that share a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_contract.assertions import check_that
from power_contract.bench import PROBE, Bench
from power_contract.clauses import clause
from power_contract.histories import HistoryCounts
from power_contract.opening import open_bench
from power_contract.oracle import evaluate_next, prefill, probed_logits
from power_contract.sessions import open_subject_session, session_oracle
from power_contract.strategies import PROMPT
from power_contract.subject import ContractSubject
from power_core.errors import ContextFullError, RollbackRefused
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SequenceRows, Taps, TokenId

BLOCK = (5, 90, 17, 230, 44, 301, 8)


def check_logits(bench: Bench, generated: Sequence[TokenId], prompt: Sequence[TokenId], seq_id: int = 0) -> None:
    """Require that the memory behaves as a replay of prompt and generated tokens."""
    probe = [token % bench.n_vocab for token in PROBE]
    found = probed_logits(bench.target, probe, seq_id)
    expected = bench.oracle.logits_after(prompt, generated, probe)
    check_that(
        np.array_equal(found, expected),
        "the logits after the kept rows",
        expected="those of a replay, bit for bit",
        actual=f"largest difference {np.abs(found - expected).max():.3g}",
        history=bench.told,
    )


def write_block(bench: Bench, prompt: Sequence[TokenId], rows: int) -> list[TokenId]:
    """Evaluate a prompt, then a block of rows at once; return the block."""
    block = [token % bench.n_vocab for token in BLOCK[:rows]]
    prefill(bench.target, prompt)
    evaluate_next(bench.target, block)
    bench.told[:] = [f"begin({len(prompt)} tokens) evaluate({rows} rows)"]
    return block


@clause("CACHE-01")
@given(length=st.sampled_from((1, 30, 33, 62)))
def test_every_rejected_suffix_of_a_block_is_dropped_exactly(
    subject: ContractSubject, bench_kind: str, length: int
) -> None:
    with open_bench(subject, bench_kind) as bench:
        prompt = bench.prompt(length)
        for drafts in range(1, bench.settings.draft_max + 1):
            for rejected in range(drafts + 1):
                block = write_block(bench, prompt, 1 + drafts)
                kept = block[: len(block) - rejected]
                bench.target.truncate(length + len(kept))
                bench.told.append(f"truncate({rejected} rows)")
                bench.equal("the length", bench.target.length_tokens(), length + len(kept))
                check_logits(bench, kept, prompt)


@clause("CACHE-02")
@pytest.mark.parametrize("length", [2, 33])
def test_what_cannot_be_dropped_exactly_is_refused_and_nothing_changes(
    subject: ContractSubject, bench_kind: str, length: int
) -> None:
    with open_bench(subject, bench_kind) as bench:
        prompt = bench.prompt(length)
        for drafts in range(bench.settings.draft_max + 1):
            for dropped in (drafts + 1, drafts + 2):
                block = write_block(bench, prompt, 1 + drafts)
                tokens = [*prompt, *block]
                wanted = len(tokens) - dropped
                can = bench.target.can_truncate(wanted)
                try:
                    bench.target.truncate(wanted)
                    kept = tokens[:wanted]
                except RollbackRefused:
                    bench.told.append(f"truncate({dropped} rows) refused")
                    kept = tokens
                bench.equal("what can_truncate() said", can, len(kept) == wanted)
                bench.equal("the length", bench.target.length_tokens(), len(kept))
                bench.equal("stale", bench.target.is_stale(), False)
                if len(kept) >= length:
                    check_logits(bench, kept[length:], prompt)


@clause("CACHE-03")
def test_a_checkpoint_of_the_target_is_exact_and_can_be_restored_twice(
    subject: ContractSubject, bench_kind: str
) -> None:
    with open_bench(subject, bench_kind) as bench:
        prompt = bench.prompt(33)
        block = write_block(bench, prompt, 3)
        mark = bench.target.checkpoint()
        bench.equal("the length in the checkpoint", mark.length_tokens, 36)
        for rows in (1, 5, 2):
            for _ in range(rows):
                evaluate_next(bench.target, [7])
            evaluate_next(bench.target, [7, 3, 1])
            bench.target.restore(mark)
            bench.told.append("restore()")
            bench.equal("the length", bench.target.length_tokens(), 36)
            check_logits(bench, block, prompt)
            bench.target.restore(mark)


@clause("CACHE-04")
def test_a_full_context_refuses_further_rows_and_keeps_the_rest(subject: ContractSubject, bench_kind: str) -> None:
    with open_bench(subject, bench_kind, ctx=64) as bench:
        prompt = bench.prompt(62)
        write_block(bench, prompt, 2)
        for rows in (1, 3):
            with pytest.raises(ContextFullError):
                evaluate_next(bench.target, [1] * rows)
            bench.told.append(f"evaluate({rows} rows) refused")
            facts = bench.target.check_integrity()
            bench.equal("the memory", (facts.length_tokens, facts.expected_tokens, facts.stale), (64, 64, False))
        bench.target.truncate(63)
        found = probed_logits(bench.target, [2])
        expected = bench.oracle.logits_after(prompt, [BLOCK[0] % bench.n_vocab], [2])
        check_that(
            np.array_equal(found, expected),
            "the last row",
            expected="that of a replay",
            actual="another",
            history=bench.told,
        )


@clause("CACHE-05")
@pytest.mark.parametrize("around", [32, 64])
def test_rounds_across_the_edge_of_a_window_keep_exact_memories(
    subject: ContractSubject, bench_kind: str, around: int, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, counts=histories) as bench:
        most = bench.settings.draft_max
        for start in range(around - most - 2, around + 2):
            bench.told.clear()
            bench.start(bench.prompt(start))
            for accepted in (0, most, 0, 1):
                bench.round(accepted)
            bench.check_history()
            bench.check_memory()
            if start % 2:  # a drafter of its own takes longest
                bench.check_drafter()
            bench.check_behaviour()


@clause("CACHE-06")
@given(data=st.data())
def test_two_sequences_of_different_acceptance_share_a_batch(
    subject: ContractSubject, bench_kind: str, data: st.DataObject, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, sequences=2, counts=histories) as bench:
        pair = PairOfSequences(bench, lengths=data.draw(st.sampled_from(((20, 33), (50, 3), (31, 31)))))
        most = bench.settings.draft_max
        widths = st.integers(0, most).flatmap(lambda width: st.tuples(st.just(width), st.integers(0, width)))
        for round_ in data.draw(st.lists(st.tuples(widths, widths), min_size=1, max_size=4), label="(drafts, right)"):
            pair.round(round_)
        pair.round(((most, 0), (most, most)))
        pair.check()


class PairOfSequences:
    """Two requests whose anchors and drafts go through the target in one evaluation."""

    def __init__(self, bench: Bench, lengths: tuple[int, int]) -> None:
        self._bench = bench
        self._prompts = [bench.prompt(length, salt) for salt, length in enumerate(lengths)]
        self._generated: list[list[TokenId]] = []
        for seq_id, prompt in enumerate(self._prompts):
            bench.feed_committed(prompt, [], seq_id)
            self._generated.append(list(bench.truth(prompt, 1)))

    def round(self, plans: Sequence[tuple[int, int]]) -> None:
        """Draft, evaluate both blocks at once, keep each sequence's own prefix; a plan is (drafts, right ones)."""
        bench = self._bench
        blocks = []
        for seq_id, (width, right) in enumerate(plans):
            bench.ask(self._generated[seq_id][-1], seq_id=seq_id)
            at = len(self._generated[seq_id])
            following = bench.truth(self._prompts[seq_id], at + width)[at:]
            wrong = [(token + 1) % bench.n_vocab for token in following]
            blocks.append([self._generated[seq_id][-1], *following[:right], *wrong[right:]])
        starts = [bench.target.length_tokens(seq_id) for seq_id in range(2)]
        bench.target.evaluate(
            tuple(
                SequenceRows(seq_id=seq_id, start_pos=starts[seq_id], tokens=block)
                for seq_id, block in enumerate(blocks)
            ),
            kernels="decode",
        )
        first, outcome = 0, []
        for block in blocks:
            outcome.append(read_block(bench.target, first, block, bool(bench.settings.context.taps)))
            first += len(block)
        for seq_id, (emitted, taps) in enumerate(outcome):
            self._keep(seq_id, starts[seq_id], blocks[seq_id], emitted, taps)
            bench.count(len(blocks[seq_id]) - 1, len(emitted) - 1, seq_id)

    def check(self) -> None:
        """Require output, memory and drafts that each sequence has alone."""
        bench = self._bench
        for seq_id, prompt in enumerate(self._prompts):
            generated = self._generated[seq_id]
            bench.equal(f"the output of sequence {seq_id}", generated, list(bench.truth(prompt, len(generated))))
            with bench.twin() as twin:
                twin.feed_committed(prompt, generated[:-1])
                alone = [int(token) for token in twin.ask(generated[-1]).tokens]
            together = [int(token) for token in bench.ask(generated[-1], seq_id=seq_id).tokens]
            bench.equal(f"the drafts on sequence {seq_id}", together, alone)
            check_logits(bench, generated[:-1], prompt, seq_id)

    def _keep(self, seq_id: int, start: int, block: list[TokenId], emitted: list[TokenId], taps: Taps | None) -> None:
        bench, kept = self._bench, block[: len(emitted)]
        if len(kept) < len(block):
            bench.target.truncate(start + len(kept), seq_id)
        bench.own.process(CommittedRows(seq_id=seq_id, start_pos=start, tokens=kept, taps=taps))
        self._generated[seq_id] += emitted


def read_block(
    target: TargetContext, first_row: int, block: list[TokenId], with_taps: bool
) -> tuple[list[TokenId], Taps | None]:
    """Return what the target emits for a block, and the hidden rows of the rows that it keeps."""
    emitted: list[TokenId] = []
    for row, following in enumerate([*block[1:], None]):
        emitted.append(target.argmax(first_row + row))
        if emitted[-1] != following:
            break
    return emitted, target.read_taps(first_row, len(emitted)) if with_taps else None


@clause("CACHE-07")
def test_integrity_reports_what_the_memory_holds(subject: ContractSubject, bench_kind: str) -> None:
    with open_bench(subject, bench_kind, sequences=2) as bench:
        prompt = bench.prompt(20)
        prefill(bench.target, prompt, 1)
        write_block(bench, prompt, 4)
        for kept, drop in ((24, 0), (22, 2)):
            bench.target.truncate(kept)
            for seq_id, expected in ((0, kept), (1, 20)):
                facts = bench.target.check_integrity(seq_id)
                found = (facts.seq_id, facts.length_tokens, facts.expected_tokens, facts.stale)
                bench.equal(f"the facts after truncate({drop} rows)", found, (seq_id, expected, expected, False))
        bench.target.clear()
        bench.equal("the lengths after clear()", [bench.target.length_tokens(each) for each in (0, 1)], [0, 20])
        check_logits(bench, [], prompt, 1)


@clause("CACHE-08")
def test_a_suffix_beyond_the_window_is_replayed_exactly(subject: ContractSubject, target_kind: str) -> None:
    with open_subject_session(subject, target_kind, scripted="zero", snapshots=1, verify_rows="all") as session:
        recurrent = session.model.info.recurrent
        result = session.generate(PROMPT, max_tokens=30).result()
        expected = list(session_oracle(subject, target_kind).tokens(PROMPT, 30))
        check_that(list(result.tokens) == expected, "the output", expected=expected, actual=list(result.tokens))
        replays = result.report.replays
        check_that(replays == int(recurrent), "the replays", expected=int(recurrent), actual=replays)
        named = sum(event["event"] == "replay" for event in result.report.events)
        check_that(named == replays, "the replays among the events", expected=replays, actual=named)


@clause("CACHE-09")
def test_a_rebuild_uses_the_arithmetic_that_the_tokens_had(
    subject: ContractSubject, bench_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, bench_kind, slice_rows=3, counts=histories) as bench:
        line = bench.start(bench.prompt(50))
        for accepted in (2, 0, bench.settings.draft_max):
            bench.round(accepted)
        bench.target.clear()
        line.sequence.clean = False
        since = len(bench.journal.calls)
        bench.told.append("clear()")
        bench.round(1)
        for call in bench.journal.calls[since:]:
            if str(call) == "target.evaluate":
                start = call.arguments[0][0].start_pos
                wanted = "prefill" if start < len(line.prompt) else "decode"
                bench.equal(f"the kernels of the rows at {start}", call.keywords["kernels"], wanted)
        bench.check_history()
        bench.check_memory()
        bench.check_behaviour()
        bench.check_drafter()
