"""SAMPLE: the sampler's state moves once per emitted token, whatever was proposed and rejected."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_contract.assertions import check_equal, check_that
from power_contract.clauses import clause
from power_contract.endings import EndingScript, endings
from power_contract.histories import HistoryCounts
from power_contract.materials import materials
from power_contract.opening import open_bench
from power_contract.oracle import GREEDY, evaluate_next, prefill
from power_contract.sampling import CountingSampler, KnownSampler
from power_contract.sessions import open_subject_session, session_oracle
from power_contract.spy import InjectedError
from power_contract.strategies import PROMPT, SAMPLINGS, acceptances, prompt_of
from power_contract.subject import ContractSubject
from power_core.drafter import Drafter
from power_core.errors import TransactionAborted
from power_core.generation import TokenPiece
from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings, TargetContext
from power_core.testing.samplings import SAMPLINGS as EVERY_SAMPLER
from power_core.tokens import CommittedRows, TokenId

TOP_K = 5
SEEDS = 200
CHI_SQUARE_4_DOF = 23.51
"""Exceeded with probability 1e-4; the seeds are fixed, so the outcome is too."""

FEW_WORDS = "root ::= " + 12 * "word " + "\nword ::= [a-z] [a-z] [ ]"
"""A grammar that ends, after more tokens than a block has."""


@clause("SAMPLE-01")
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda each: f"temperature-{each.temperature}-seed-{each.seed}")
@given(data=st.data())
def test_with_a_fixed_seed_rounds_emit_what_plain_decoding_emits(
    subject: ContractSubject,
    target_kind: str,
    sampling: SamplingSettings,
    data: st.DataObject,
    histories: HistoryCounts,
) -> None:
    with open_bench(subject, target_kind, sampling=sampling, counts=histories) as bench:
        bench.start(bench.prompt(33))
        for accepted in data.draw(acceptances(bench.settings.draft_max), label="accepted"):
            bench.round(accepted)
            bench.check_history()


@clause("SAMPLE-02")
@pytest.mark.parametrize("fault", [None, "drafter.process", "drafter.accept", "target.evaluate"])
def test_one_draw_and_one_accept_per_emitted_token(
    subject: ContractSubject, target_kind: str, fault: str | None, histories: HistoryCounts
) -> None:
    with open_bench(subject, target_kind, counts=histories, slice_rows=2) as bench:
        truth = plain_tokens(bench.target, bench.prompt(33), 40)
        line = bench.start(bench.prompt(33))
        sampler = CountingSampler(bench.target)
        sampler.begin(line.prompt)
        line.parts.sampler = sampler
        row, _ = prefill(bench.target, line.prompt)
        line.sequence.history[-1] = sampler.sample(row)
        for right in (0, 2, bench.settings.draft_max, 1, 0):
            if fault is not None:
                bench.journal.arm(*fault.split("."), when="after")
            try:
                bench.round(drafts_of(truth, len(line.generated), right, bench.settings.draft_max))
            except (InjectedError, TransactionAborted):
                bench.told.append(f"fail(after {fault})")
            bench.journal.disarm()
            bench.equal("the emitted tokens", line.generated, truth[: len(line.generated)])
            bench.equal("the random draws", sampler.draws, len(line.generated))
            bench.equal("the tokens accepted into the sampler", sampler.accepted, [*line.prompt, *line.generated])


def plain_tokens(target: TargetContext, prompt: Sequence[TokenId], count: int) -> list[TokenId]:
    """Decode with the counting sampler, one token after the other."""
    sampler = CountingSampler(target)
    sampler.begin(prompt)
    row, _ = prefill(target, prompt)
    tokens = [sampler.sample(row)]
    while len(tokens) < count:
        evaluate_next(target, tokens[-1:])
        tokens.append(sampler.sample(0))
    return tokens


def drafts_of(truth: Sequence[TokenId], at: int, right: int, width: int) -> list[TokenId]:
    """Return drafts of which the first ``right`` are what follows."""
    following = truth[at : at + width]
    return [token if index < right else (token + 1) % 400 for index, token in enumerate(following)]


@clause("SAMPLE-03")
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda each: f"temperature-{each.temperature}-seed-{each.seed}")
def test_a_samplers_snapshot_is_exact_and_can_be_restored_twice(
    subject: ContractSubject, target_kind: str, sampling: SamplingSettings
) -> None:
    with open_bench(subject, target_kind) as bench:
        prefill(bench.target, bench.prompt(33))
        evaluate_next(bench.target, list(bench.prompt(8, salt=3)))
        sampler = bench.target.open_sampler(sampling)
        sampler.begin(bench.prompt(33))
        before = [sampler.sample(row) for row in range(3)]
        mark = sampler.snapshot()
        first = [sampler.sample(row) for row in (3, 4, 5, 6, 7)]
        for _ in range(2):
            sampler.restore(mark)
            bench.equal("the draws after restore()", [sampler.sample(row) for row in (3, 4, 5, 6, 7)], first)
        sampler.begin(bench.prompt(33))
        bench.equal("the draws of a new request", [sampler.sample(row) for row in range(3)], before)
        sampler.close()


@clause("SAMPLE-04")
def test_rounds_draw_from_the_targets_distribution(subject: ContractSubject, target_kind: str) -> None:
    sampling = SamplingSettings(temperature=1.5, top_k=TOP_K)
    with open_bench(subject, target_kind, sampling=sampling) as bench:
        line = bench.start(bench.prompt(33))
        logits = bench.oracle.logits_after(line.prompt, [], line.generated)[0].astype(np.float64)
        best = np.argsort(logits)[::-1][:TOP_K]
        shares = np.exp((logits[best] - logits[best[0]]) / sampling.temperature)
        expected = SEEDS * shares / shares.sum()
        drawn = dict.fromkeys(best.tolist(), 0)
        for seed in range(SEEDS):
            token = first_token_of_a_round(bench, seed, int(best[1]))
            check_that(token in drawn, "the drawn token", expected=sorted(drawn), actual=token)
            drawn[token] += 1
        found = np.asarray([drawn[token] for token in best.tolist()])
        distance = float(((found - expected) ** 2 / expected).sum())
        check_that(distance < CHI_SQUARE_4_DOF, "the frequencies", expected=np.round(expected, 1), actual=found)


def first_token_of_a_round(bench: Any, seed: int, draft: TokenId) -> TokenId:
    """Return the first token that a round emits with a sampler of that seed; the round is not kept."""
    line = bench.line()
    sampler = bench.target.open_sampler(SamplingSettings(temperature=1.5, top_k=TOP_K, seed=seed))
    line.parts.sampler = sampler
    sampler.begin(line.prompt)
    bench.plan([draft])
    with bench.transaction() as transaction:
        transaction.propose(bench.request(limit=1))
        block = transaction.verify(lambda token: False)
    sampler.close()
    token: TokenId = block.emitted[0]
    return token


@clause("SAMPLE-05")
def test_two_sequences_have_samplers_of_their_own(
    subject: ContractSubject, target_kind: str, histories: HistoryCounts
) -> None:
    with open_bench(subject, target_kind, sequences=2, sampling=SAMPLINGS[0], counts=histories) as bench:
        bench.start(bench.prompt(33), 0)
        bench.start(bench.prompt(12, salt=2), 1)
        most = bench.settings.draft_max
        for first, second in ((0, most), (2, 0), (most, 1), (1, 1)):
            bench.round(first, 0)
            bench.round(second, 1)
        for seq_id in range(2):
            bench.check_history(seq_id)


@clause("SAMPLE-06")
@pytest.mark.parametrize("scripted", [None, "zero", "partial", "full"])
def test_a_sessions_stochastic_output_is_plain_decodings(
    subject: ContractSubject, target_kind: str, scripted: Any
) -> None:
    for sampling in SAMPLINGS[1:4]:
        expected = list(session_oracle(subject, target_kind).tokens(PROMPT, 30, sampling))
        with open_subject_session(subject, target_kind, scripted=scripted, sampling=sampling) as session:
            for _ in range(2):
                found = list(session.generate(PROMPT, max_tokens=30, sampling=sampling).result().tokens)
                check_that(found == expected, f"the output with {sampling}", expected=expected, actual=found)


@clause("SAMPLE-07")
@pytest.mark.parametrize("scripted", [None, "partial"])
def test_what_the_settings_forbid_is_never_emitted(subject: ContractSubject, target_kind: str, scripted: Any) -> None:
    plain = list(session_oracle(subject, target_kind).tokens(PROMPT, 30))
    forbidden = SamplingSettings(logit_bias=tuple((token, -math.inf) for token in set(plain)))
    lower = SamplingSettings(temperature=1.0, seed=9, grammar='root ::= ([a-z] [a-z]? [a-z]? " ")+')
    for sampling in (forbidden, lower):
        with open_subject_session(subject, target_kind, scripted=scripted, sampling=sampling) as session:
            result = session.generate(PROMPT, max_tokens=30, sampling=sampling).result()
        if sampling is forbidden:
            found = sorted(set(result.tokens).intersection(plain))
            check_that(not found, "emitted tokens that the logit bias forbids", expected="none", actual=found)
        else:
            fits = re.fullmatch(r"(?:[a-z]{1,3} )*[a-z]{0,3}", result.text) is not None
            check_that(fits, "the text under a grammar", expected="words of at most three letters", actual=result.text)


class FailsOnce:
    """A drafter's stand-in that fails once while it takes rows in, after they were drawn (``Drafter``)."""

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner
        self._wait = 6

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def process(self, rows: CommittedRows) -> None:
        """Fail at the sixth call."""
        self._wait -= 1
        if self._wait == 0:
            raise InjectedError
        self._inner.process(rows)


@clause("SAMPLE-08")
@pytest.mark.parametrize("scripted", [None, "zero", "partial", "full"])
def test_log_probabilities_are_plain_decodings(subject: ContractSubject, target_kind: str, scripted: Any) -> None:
    with open_subject_session(subject, target_kind, spec="off", draft=None) as session:
        plain = [piece.logprobs for piece in session.generate(PROMPT, max_tokens=30, logprobs=3) if piece.logprobs]
    settings: dict[str, Any] = {"scripted": scripted, "verify_rows": 2, "on_drafter": FailsOnce}
    found: list[TokenPiece] = []
    with open_subject_session(subject, target_kind, **settings) as session:
        with suppress(TransactionAborted):
            for piece in session.generate(PROMPT, max_tokens=30, logprobs=3):
                found.append(piece)
        given = sum(piece.token is not None for piece in found)
        found += session.resume(max_tokens=30 - given)
    check_that(0 < given < 30, "a request that failed in the middle", expected="1 to 29 tokens", actual=given)
    drafted = [piece.logprobs for piece in found if piece.token is not None]
    wrong = [at for at, (one, other) in enumerate(zip(drafted, plain, strict=False)) if one != other]
    right = not wrong and len(drafted) == len(plain)
    actual = f"{len(drafted)}, others at {wrong[:8]}"
    check_that(right, "the log-probabilities", expected=f"{len(plain)}, as without drafts", actual=actual)


@clause("SAMPLE-09")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_ends_where_plain_decoding_ends(
    subject: ContractSubject, target_kind: str, temperature: float
) -> None:
    request: dict[str, Any] = {
        "max_tokens": 100,
        "sampling": SamplingSettings(temperature=temperature, seed=5, grammar=FEW_WORDS),
    }
    with open_subject_session(subject, target_kind, spec="off", draft=None) as session:
        plain = session.generate(PROMPT, **request).result()
        ends = [token for token in range(session.model.info.n_vocab) if session.model.vocabulary.is_end(token)]
    check_equal("the end of plain decoding", plain.finish_reason, "grammar_end")
    script = EndingScript(PROMPT)
    with open_subject_session(subject, target_kind, scripted=script) as session:
        places = [
            ending
            for at, end in enumerate(ends)
            for ending in endings(plain.tokens, [end, end], session.plan.draft_max)
            if at == 0 or ending.form == "draft"
        ]
        expected = plain.tokens, plain.text, "grammar_end"
        for script.ending in (None, *places):
            result = session.generate(PROMPT, **request).result()
            found = result.tokens, result.text, result.finish_reason
            check_equal(f"the output of a grammar that ends {script.ending or 'with own drafts'}", found, expected)


@clause("SAMPLE-10")
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLINGS[0]], ids=["greedy", "drawn"])
def test_a_stop_token_ends_at_its_place_and_can_be_passed(
    subject: ContractSubject, target_kind: str, sampling: SamplingSettings
) -> None:
    truth = list(session_oracle(subject, target_kind).tokens(PROMPT, 30, sampling))
    at = next(at for at in range(12, 30) if truth[at] not in truth[:at])
    script = EndingScript(PROMPT)
    with open_subject_session(subject, target_kind, scripted=script, sampling=sampling) as session:
        for ending in endings(truth[:at], truth[at:], session.plan.draft_max):
            script.ending = ending
            generation = session.generate(PROMPT, max_tokens=30, stop_tokens=[truth[at]], sampling=sampling)
            found = generation.result()
            script.ending = None
            rest = session.resume(max_tokens=30 - at).result()
            outcome = [*found.tokens], found.finish_reason, [*rest.tokens]
            expected = truth[:at], "stop_token", truth[at:]
            check_equal(f"the output before a stop token {ending}, and the rest", outcome, expected)


@clause("SAMPLE-11")
@pytest.mark.parametrize("name", EVERY_SAMPLER)
@given(
    steps=st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ddddsrb"), st.integers(0, 7)), min_size=6, max_size=40)
)
def test_copies_of_a_sampler_do_not_disturb_each_other(
    subject: ContractSubject, name: str, steps: list[tuple[int, str, int]]
) -> None:
    told = [f"{step}({which}, {at})" for which, step, at in steps]
    model = materials().model(subject, subject.target_kinds[0], load_nextn=False)
    context = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=64, threads=1))
    try:
        evaluate_next(context, prompt_of(8))
        samplers = [KnownSampler(context, EVERY_SAMPLER[name]) for _ in range(2)]
        for which, step, at in steps:
            samplers[which].step(step, at, prompt_of(at + 1))
        alone = context.open_sampler(EVERY_SAMPLER[name])
        for sampler in samplers:
            alone.begin(sampler.prompt)
            drawn = [alone.sample(row) for row in sampler.rows]
            check_equal("the draws of a sampler that was used in turn with copies", sampler.drawn, drawn, history=told)
    finally:
        context.close()
