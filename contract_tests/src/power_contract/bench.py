"""A subject's drafter beside a tiny target, driven round by round through the core's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, cast

import attrs
import numpy as np

from power_contract.assertions import check_equal, check_that
from power_contract.comparing import live_contexts, shown
from power_contract.histories import HistoryCounts
from power_contract.lines import BenchSettings, Line
from power_contract.materials import materials
from power_contract.oracle import Oracle, evaluate_next, prefill, probed_logits
from power_contract.scripted import AcceptanceScript, Plan, ScriptedDrafter
from power_contract.spy import Journal, Spy
from power_contract.strategies import prompt_of
from power_contract.subject import ContractSubject
from power_contract.willing import WillingSampler, repeated
from power_core.drafter import Drafter, DraftRequest, Proposal
from power_core.plugins import API_VERSION, DrafterContext, StrategySpec
from power_core.sampler import Sampler
from power_core.sequence import TargetSequence
from power_core.target import TargetContext, TargetModel
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_core.transaction import Round, VerifyTransaction
from power_core.verify import VerifiedBlock

PROBE = (3, 141, 59, 26)
"""Tokens whose logits tell two memories apart."""


class Bench:
    """One target context and one drafter of the subject, with everything that happens on them recorded.

    Attributes:
        target: The context itself; the rounds reach it through a ``Spy``.
        drafter: The plugin's drafter, wrapped so that its proposals can be replaced.
        journal: Calls on target, drafter and samplers.
        draft_contexts: With ``find_drafts``, the contexts that the drafter opened on the target's backend.
        told: What was done, in words, for failure texts.
    """

    def __init__(
        self,
        subject: ContractSubject,
        spec: StrategySpec,
        settings: BenchSettings,
        counts: HistoryCounts,
        *,
        find_drafts: bool = False,
    ) -> None:
        self.subject = subject
        self.settings = settings
        self.counts = counts
        self.journal = Journal()
        self.told: list[str] = []
        self._spec = spec
        self._planned: dict[SeqId, Plan] = {}
        self._lines: dict[SeqId, Line] = {}
        kind, load_nextn = settings.target_kind, settings.load_nextn
        self.model: TargetModel = materials().model(subject, kind, load_nextn=load_nextn)
        self.oracle: Oracle = materials().oracle(self.model, kind, load_nextn, settings.context)
        self.n_vocab = self.model.info.n_vocab
        with ExitStack() as stack:
            self.target: TargetContext = self.model.open_context(settings.context)
            stack.callback(self.target.close)
            known = live_contexts(self.target) if find_drafts else []
            self.own: Drafter = spec.create_drafter(self.drafter_context())
            found = live_contexts(self.target) if find_drafts else []
            self.draft_contexts = [each for each in found if not any(each is one for one in known)]
            stack.pop_all()
        script = AcceptanceScript(self._truth, lambda request: self._planned.get(request.seq_id), self.n_vocab)
        self.drafter = ScriptedDrafter(self.own, script)

    # ------------------------------------------------------------------------------------------------------- requests

    def start(self, prompt: Sequence[TokenId], seq_id: SeqId = 0) -> Line:
        """Start a request as a session does: drafter and sampler begin, the prompt goes by its chunks."""
        self.told.append(f"begin({len(prompt)} tokens{_of(seq_id)})")
        line = self._new_line(seq_id)
        line.prompt = tuple(prompt)
        drafter = line.parts.drafter
        assert drafter is not None
        drafter.begin(prompt, seq_id=seq_id)
        line.sampler.begin(prompt)
        row = line.sequence.start(prompt, on_rows=drafter.process)
        line.sequence.begin(prompt, line.sampler.sample(row))
        return line

    def line(self, seq_id: SeqId = 0) -> Line:
        """Return a started sequence."""
        return self._lines[seq_id]

    def truth(self, prompt: Sequence[TokenId], count: int) -> Sequence[TokenId]:
        """Return what plain decoding emits after a prompt."""
        return self._truth(tuple(prompt), count)

    # --------------------------------------------------------------------------------------------------------- rounds

    def plan(self, plan: Plan, seq_id: SeqId = 0) -> None:
        """Say what the next proposals of a sequence shall be."""
        self._planned[seq_id] = plan

    def request(self, limit: int | None = None, seq_id: SeqId = 0) -> DraftRequest:
        """Return the request that the next round makes, bounded by the context."""
        sequence = self.line(seq_id).sequence
        return DraftRequest(
            seq_id=seq_id,
            n_past=sequence.committed_tokens,
            anchor=sequence.history[-1],
            limit_tokens=min(limit or self.settings.draft_max, self.room_tokens(seq_id)),
            p_min=self.settings.p_min,
        )

    def room_tokens(self, seq_id: SeqId = 0) -> int:
        """Return how many drafts still fit into the context after the anchor."""
        return self.settings.context.ctx_tokens - self.line(seq_id).sequence.committed_tokens - 1

    def transaction(self, seq_id: SeqId = 0) -> VerifyTransaction:
        """Return a transaction on the sequence, not entered yet."""
        line = self.line(seq_id)
        return VerifyTransaction(line.parts, line.report)

    def follow(self, tokens: int, seq_id: SeqId = 0) -> None:
        """Let a willing target draw so many of the plugin's own drafts in the next rounds."""
        willing = self.line(seq_id).willing
        assert willing is not None, "open_bench(..., willing=True)"
        willing.willing_tokens = tokens

    def round(
        self,
        plan: Plan,
        seq_id: SeqId = 0,
        *,
        limit: int | None = None,
        is_terminal: Callable[[TokenId], bool] = lambda token: False,
    ) -> VerifiedBlock:
        """Run a whole round with the proposal that ``plan`` describes; return its outcome."""
        self.plan(plan, seq_id)
        request = self.request(limit, seq_id)
        with self.transaction(seq_id) as transaction:
            proposal = transaction.propose(request if request.limit_tokens > 0 else None)
            block = transaction.verify(is_terminal)
            transaction.commit()
        self.count(len(proposal.tokens), block.accepted_tokens, seq_id)
        return block

    def count(self, proposed: int, accepted: int, seq_id: SeqId = 0) -> None:
        """Record a committed round."""
        kind = self.settings.target_kind
        mutable = kind != "attention" or "mutable-memory" in self.subject.features
        self.told.append(f"round({accepted} of {proposed} accepted{_of(seq_id)})")
        self.counts.add(kind, accepted_tokens=accepted, proposed_tokens=proposed, mutable=mutable)

    # --------------------------------------------------------------------------------------------------------- checks

    def own_proposal(self, seq_id: SeqId = 0, limit: int | None = None) -> Proposal:
        """Return what the plugin itself proposes now; its open round, if any, is not closed."""
        return self.own.propose(self.request(limit, seq_id))

    @contextmanager
    def twin(self, **changes: Any) -> Iterator[Bench]:
        """Open another bench with the same settings."""
        twin = Bench(self.subject, self._spec, attrs.evolve(self.settings, **changes), HistoryCounts())
        try:
            yield twin
        finally:
            twin.close()

    def feed_committed(self, prompt: Sequence[TokenId], generated: Sequence[TokenId], seq_id: SeqId = 0) -> None:
        """Start the plugin's drafter and hand it committed rows: the prompt by its chunks, then token by token."""
        self.told.append(f"feed({len(prompt)} prompt tokens, {len(generated)} more{_of(seq_id)})")
        self.own.begin(prompt, seq_id=seq_id)
        _, chunks = prefill(self.target, prompt, seq_id)
        at = 0
        for taps in chunks:
            piece = prompt[at : at + self.target.ubatch_rows]
            self._hand_over(piece, at, taps, seq_id)
            at += len(piece)
        for token in generated:
            evaluate_next(self.target, [token], seq_id)
            self._hand_over([token], at, self.target.read_taps(0, 1), seq_id)
            at += 1

    def ask(
        self,
        anchor: TokenId,
        *,
        limit: int | None = None,
        seq_id: SeqId = 0,
        n_past: int | None = None,
        p_min: float | None = None,
    ) -> Proposal:
        """Ask the plugin itself for drafts after any anchor, at the end of what the target's memory holds."""
        return self.own.propose(
            DraftRequest(
                seq_id=seq_id,
                n_past=self.target.length_tokens(seq_id) if n_past is None else n_past,
                anchor=anchor % self.n_vocab,
                limit_tokens=limit or self.settings.draft_max,
                p_min=self.settings.p_min if p_min is None else p_min,
            )
        )

    def prompt(self, length: int = 50, salt: int = 0) -> tuple[TokenId, ...]:
        """Return a prompt of the target's vocabulary."""
        return prompt_of(length, salt, self.n_vocab)

    def check_history(self, seq_id: SeqId = 0) -> None:
        """Require that the history is the prompt and what the target alone emits after it."""
        line = self.line(seq_id)
        count = len(line.generated)
        expected = self.truth(line.prompt, count) if line.willing is None else line.willing.tokens[:count]
        self.equal("the emitted tokens", line.generated, list(expected))

    def check_memory(self, seq_id: SeqId = 0) -> None:
        """Require that the target's memory holds exactly the committed tokens, by count."""
        line = self.line(seq_id)
        facts = self.target.check_integrity(seq_id)
        expected = line.sequence.committed_tokens
        self.equal("the positions in the target's memory", (facts.length_tokens, facts.stale), (expected, False))

    def check_behaviour(self, seq_id: SeqId = 0) -> None:
        """Require that the target's memory behaves as after a replay of the committed tokens; it is left longer."""
        line = self.line(seq_id)
        room = self.target.ctx_tokens - line.sequence.committed_tokens
        probe = [token % self.n_vocab for token in PROBE[:room]]
        found = probed_logits(self.target, probe, seq_id)
        expected = self.oracle.logits_after(line.prompt, line.committed, probe)
        check_that(
            np.array_equal(found, expected),
            "the logits after the committed tokens differ from those after a replay of them",
            expected="equal, bit for bit",
            actual=f"largest difference {np.abs(found - expected).max():.3g}",
            history=self.told,
        )

    def check_drafter(self, seq_id: SeqId = 0, *, also: Sequence[TokenId] = ()) -> None:
        """Require that the plugin now proposes what a fresh drafter does that was fed only the committed tokens.

        The fresh one gets the prompt by its chunks and generated tokens one by one. Both are asked after the anchor
        and after what followed the last committed token before, in the history and in the tokens of ``also``.
        """
        line = self.line(seq_id)
        with self.twin() as twin:
            twin.feed_committed(line.prompt, line.committed)
            for anchor in self._anchors(line, also):
                request = attrs.evolve(self.request(seq_id=seq_id), anchor=anchor)
                own = self.own.propose(request)
                fresh = twin.own.propose(attrs.evolve(request, seq_id=0))
                self.equal(f"the plugin's next own drafts after {anchor}", shown(own), shown(fresh))
                self.counts.add_comparison(self.settings.target_kind, len(fresh.tokens))

    def equal(self, what: str, actual: object, expected: object) -> None:
        """Require equality, or fail with the history."""
        check_equal(what, actual, expected, history=self.told)

    def abort_drafts(self, nodes: int) -> None:
        """Stop the next evaluation of the drafter's contexts after so many graph nodes; -1 for never."""
        for context in self.draft_contexts:
            context.abort_after(nodes)

    def close(self) -> None:
        """Close the drafter and the target's context, in that order."""
        self.own.close()
        for line in self._lines.values():
            line.sampler.close()
        self.target.close()

    # ------------------------------------------------------------------------------------------------------- internal

    def _anchors(self, line: Line, also: Sequence[TokenId]) -> list[TokenId]:
        """Return the anchor, and tokens that followed the last committed token before: what a lookup knows."""
        history = line.sequence.history
        last = history[-2]
        followed = [[after for token, after in pairwise(tokens) if token == last] for tokens in (also, history[:-1])]
        return list(dict.fromkeys([history[-1], *followed[0][-2:], *followed[1][-2:]]))

    def _new_line(self, seq_id: SeqId) -> Line:
        if seq_id in self._lines:
            self._lines[seq_id].sampler.close()
        willing = self._willing(seq_id) if self.settings.willing else None
        chooser = willing or self.target.open_sampler(self.settings.sampling)
        sampler = cast("Sampler", Spy(chooser, "sampler", self.journal))
        context = cast("TargetContext", Spy(self.target, "target", self.journal))
        sequence = TargetSequence(
            context,
            slice_rows=self.settings.slice_rows,
            taps=bool(self.settings.context.taps),
            seq_id=seq_id,
        )
        drafter = cast("Drafter", Spy(self.drafter, "drafter", self.journal))
        line = Line(seq_id, sequence, sampler, Round(sequence, sampler, drafter, self.n_vocab), willing)
        self._lines[seq_id] = line
        return line

    def _willing(self, seq_id: SeqId) -> WillingSampler:
        return WillingSampler(self.drafter.own, lambda: self._planned.get(seq_id) is None, self.n_vocab)

    def _truth(self, prompt: tuple[TokenId, ...], count: int) -> Sequence[TokenId]:
        if self.settings.willing:
            return [repeated(prompt, index) for index in range(count)]
        return self.oracle.tokens(prompt, count, self.settings.sampling)

    def _hand_over(self, tokens: Sequence[TokenId], start_pos: int, taps: Any, seq_id: SeqId) -> None:
        wanted = taps if self.settings.context.taps else None
        self.own.process(CommittedRows(seq_id=seq_id, start_pos=start_pos, tokens=list(tokens), taps=wanted))

    def drafter_context(self) -> DrafterContext:
        kind = self.settings.target_kind
        return DrafterContext(
            api_version=API_VERSION,
            target_model=self.model,
            target_context=self.target,
            target_header=materials().target_header(kind),
            draft_path=materials().draft(self.subject, kind),
            draft_header=materials().draft_header(self.subject, kind),
            draft_max_tokens=self.settings.draft_max,
            draft_p_min=self.settings.p_min,
            threads=1,
        )


def _of(seq_id: SeqId) -> str:
    return f", sequence {seq_id}" if seq_id else ""
