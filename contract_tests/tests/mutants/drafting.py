"""Faults in a plugin's drafting, and in what the core feeds to it. Area DRAFT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from mutants.planting import Passing, changed_specs, imported, mutant, replaced, wrapped_drafter
from power_core import sequence
from power_core.blocks import BlockGeometry
from power_core.drafter import DraftRequest, Proposal
from power_core.errors import ContextFullError
from power_core.tokens import CommittedRows, SeqId, Taps, TokenId
from power_core.transaction import VerifyTransaction

# --------------------------------------------------------------------------------------------------------- the proposal


class OneMore(Passing):
    def propose(self, request: DraftRequest) -> Proposal:
        return self.inner.propose(attrs.evolve(request, limit_tokens=request.limit_tokens + 1))


@mutant("DRAFT-01", "ngram")
def one_draft_too_many() -> Iterator[None]:
    """The drafter proposes one token more than it was asked for."""
    with wrapped_drafter("ngram", OneMore):
        yield


class BeyondTheVocabulary(Passing):
    def propose(self, request: DraftRequest) -> Proposal:
        proposal = self.inner.propose(request)
        return attrs.evolve(proposal, tokens=[token + 10**6 for token in proposal.tokens])


@mutant("DRAFT-02", "ngram")
def drafts_beyond_the_vocabulary() -> Iterator[None]:
    """Drafts are in a vocabulary of their own."""
    with wrapped_drafter("ngram", BeyondTheVocabulary):
        yield


class Silent(Passing):
    def propose(self, request: DraftRequest) -> Proposal:
        self.inner.propose(request)
        return Proposal(seq_id=request.seq_id)


@mutant("DRAFT-02", "ngram")
def never_drafts() -> Iterator[None]:
    """The drafter runs and proposes nothing, ever."""
    with wrapped_drafter("ngram", Silent):
        yield


class Moody(Passing):
    asked = 0

    def propose(self, request: DraftRequest) -> Proposal:
        self.asked += 1
        proposal = self.inner.propose(request)
        return attrs.evolve(proposal, tokens=list(proposal.tokens)[self.asked % 2 :])


@mutant("DRAFT-03", "ngram")
def drafts_depend_on_the_call() -> Iterator[None]:
    """Every other proposal is another one."""
    with wrapped_drafter("ngram", Moody):
        yield


@mutant("DRAFT-06", "dspark")
def threshold_is_ignored() -> Iterator[None]:
    """`p_min` shortens nothing."""

    class Bold(Passing):
        def propose(self, request: DraftRequest) -> Proposal:
            return self.inner.propose(attrs.evolve(request, p_min=min(request.p_min, 1e-30)))

    with wrapped_drafter("dspark", Bold):
        yield


@mutant("DRAFT-11", "ngram")
def refuses_near_the_end() -> Iterator[None]:
    """The drafter fails where a whole block would not fit into the context."""

    def change(spec: Any) -> Any:
        def create(context: Any) -> Any:
            class Careful(Passing):
                def propose(self, request: DraftRequest) -> Proposal:
                    if request.n_past + 1 + context.draft_max_tokens > context.target_context.ctx_tokens:
                        raise ContextFullError("the block does not fit")
                    return self.inner.propose(request)

            return Careful(spec.create_drafter(context))

        return attrs.evolve(spec, create_drafter=create)

    with changed_specs("ngram", change):
        yield


@mutant("DRAFT-12", "dspark")
def dspark_read_from_row_1_instead_of_0() -> Iterator[None]:
    """The drafts of an anchor-first block are read one row too late, as those of a bonus-anchor block stand."""
    with (
        replaced(BlockGeometry, "first_draft_row", property(lambda self: 1)),
        replaced(BlockGeometry, "most_drafts", property(lambda self: self.block_size_rows - 1)),
    ):
        yield


# --------------------------------------------------------------------------------------------- what a drafter remembers


@mutant("DRAFT-04", "ngram")
def fed_from_the_last_chunk_only() -> Iterator[None]:
    """The drafter remembers the last chunk of the prompt alone."""
    drafter = imported("ngram", "drafter").NgramDrafter
    process = drafter.process

    def forgetful(self: Any, rows: CommittedRows) -> None:
        known = self._sequences.get(rows.seq_id)
        if known is not None and rows.start_pos < known.prompt_tokens:
            known.prompt._ends.clear()
        process(self, rows)

    with replaced(drafter, "process", forgetful):
        yield


@mutant("DRAFT-04", "mtp")
def state_row_lost_between_chunks() -> Iterator[None]:
    """The first row of every chunk is fed with zeros instead of the state row before it."""
    graph = imported("mtp", "graph").MtpGraph
    feed = graph.feed

    def zeroed(self: Any, rows: CommittedRows) -> None:
        state = self._states[rows.seq_id]
        self._states[rows.seq_id] = attrs.evolve(state, pending=np.zeros_like(state.pending))
        feed(self, rows)

    with replaced(graph, "feed", zeroed):
        yield


@mutant("DRAFT-05", "ngram")
def proposing_leaves_the_anchor() -> Iterator[None]:
    """The n-grams that end before an anchor stay in the table after a proposal."""
    drafter = imported("ngram", "drafter").NgramDrafter
    propose = drafter.propose

    def leaving(self: Any, request: DraftRequest) -> Proposal:
        proposal = propose(self, request)
        output = self._sequences[request.seq_id].output
        for length in output._lengths:
            if output.tokens:
                ngram = (*output.tokens, request.anchor)[-length:]
                self._sequences[request.seq_id].prompt._ends[ngram] = 1
        return proposal

    with replaced(drafter, "propose", leaving):
        yield


@mutant("DRAFT-05", "dspark")
def block_stays_in_the_memory() -> Iterator[None]:
    """A proposal shifts where the next rows are fed to."""
    graph = imported("native", "block_graph").BlockGraph
    draft, feed = graph.draft, graph.feed
    dirty: Counter[int] = Counter()

    def drafting(self: Any, request: DraftRequest) -> Any:
        dirty[id(self)] = 1
        return draft(self, request)

    def feeding(self: Any, rows: CommittedRows) -> None:
        if dirty.pop(id(self), 0) and rows.taps is not None and rows.taps.layers is not None:
            layers = rows.taps.layers.copy()
            layers[0] = 0.0
            rows = attrs.evolve(rows, taps=Taps(layers=layers))
        feed(self, rows)

    with replaced(graph, "draft", drafting), replaced(graph, "feed", feeding):
        yield


class RemembersARejected(Passing):
    """Feeds one rejected draft to its table."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.proposed: dict[SeqId, list[TokenId]] = {}

    def propose(self, request: DraftRequest) -> Proposal:
        proposal = self.inner.propose(request)
        self.proposed[request.seq_id] = list(proposal.tokens)
        return proposal

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        self.inner.accept(accepted_tokens, seq_id=seq_id)
        rejected = self.proposed[seq_id][accepted_tokens:]
        known = self.inner._sequences[seq_id]  # type: ignore[attr-defined]
        for token in rejected[:1]:
            for length in known.output._lengths:
                known.prompt._ends[(*known.output.tokens, token)[-length:]] = 1


@mutant("DRAFT-07", "ngram")
def drafter_keeps_one_rejected_draft() -> Iterator[None]:
    """The drafter's table keeps the first rejected draft of a round."""
    with wrapped_drafter("ngram", RemembersARejected):
        yield


class TrustsItsOwn(Passing):
    """Takes what it wrote for accepted drafts of its own for what the target computed."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.proposed: dict[SeqId, list[TokenId]] = {}

    def propose(self, request: DraftRequest) -> Proposal:
        proposal = self.inner.propose(request)
        self.proposed[request.seq_id] = list(proposal.tokens)
        return proposal

    def process(self, rows: CommittedRows) -> None:
        drafts = self.proposed.pop(rows.seq_id, [])
        own = len(rows.tokens) > 1 and list(rows.tokens[1:]) == drafts[: len(rows.tokens) - 1]
        taps = rows.taps
        if own and taps is not None and taps.layers is not None:
            taps = Taps(layers=np.concatenate((taps.layers[:1], np.zeros_like(taps.layers[1:]))))
        self.inner.process(attrs.evolve(rows, taps=taps))


@mutant("DRAFT-13", "dspark")
def own_rows_kept_for_accepted_drafts() -> Iterator[None]:
    """Where the target accepted the drafter's own drafts, the target's hidden rows are not taken in."""
    with wrapped_drafter("dspark", TrustsItsOwn):
        yield


@mutant("DRAFT-12", "ngram")
def shortest_match_first() -> Iterator[None]:
    """A lookup prefers short n-grams to long ones."""
    index = imported("ngram", "drafter").NgramIndex
    init = index.__init__

    def reversed_lengths(self: Any, config: Any) -> None:
        init(self, config)
        self._lengths = range(config.max_ngram_tokens, config.min_ngram_tokens - 1, -1)

    with replaced(index, "__init__", reversed_lengths):
        yield


@mutant("DRAFT-08", "ngram")
def one_memory_for_all_sequences() -> Iterator[None]:
    """All sequences of a drafter share one table."""
    drafter = imported("ngram", "drafter").NgramDrafter
    begin = drafter.begin

    def sharing(self: Any, prompt: Any, *, seq_id: SeqId = 0) -> None:
        others = [known for other, known in self._sequences.items() if other != seq_id]
        begin(self, prompt, seq_id=seq_id)
        if others:
            self._sequences[seq_id].prompt._ends = others[0].prompt._ends

    with replaced(drafter, "begin", sharing):
        yield


# --------------------------------------------------------------------------------------------- what the core hands over


@mutant("DRAFT-09", "mtp")
def pending_row_from_the_rejected_suffix() -> Iterator[None]:
    """The last hidden row that a drafter gets is the one after it, of the rejected suffix."""
    taps = sequence.BlockRows.taps

    def later(self: Any, n_rows: int) -> Taps | None:
        found = taps(self, n_rows)
        if found is None or n_rows >= self.evaluated_rows:
            return found
        wrong = self._sequence.context.read_taps(n_rows - self._slice_start, 1)
        return Taps(nextn=with_last(found.nextn, wrong.nextn), layers=with_last(found.layers, wrong.layers))

    with replaced(sequence.BlockRows, "taps", later):
        yield


def with_last(rows: Any, wrong: Any) -> Any:
    """Return rows whose last one is another."""
    return None if rows is None else np.concatenate((rows[:-1], wrong))


@mutant("DRAFT-09", "dflash")
def hidden_rows_of_the_last_slice_only() -> Iterator[None]:
    """With several slices, the hidden rows of the first ones are those of the last."""
    evaluate = sequence.BlockRows._evaluate_slice

    def repeating(self: Any, row: int) -> None:
        kept = len(self._taps)
        evaluate(self, row)
        if len(self._taps) > kept:
            count = row - self._slice_start if row > self._slice_start else len(self._taps[-1].layers)
            again = self._sequence.context.read_taps(0, 1)
            self._taps[-1] = Taps(layers=np.repeat(again.layers, count, axis=0))

    with replaced(sequence.BlockRows, "_evaluate_slice", repeating):
        yield


@mutant("DRAFT-10", "ngram")
def accept_after_every_round() -> Iterator[None]:
    """`accept` is called after rounds without drafts too."""
    commit = VerifyTransaction.commit

    def eager(self: Any) -> None:
        commit(self)
        if not self._proposal.tokens and self._parts.drafter is not None:
            self._parts.drafter.accept(0, seq_id=self._parts.sequence.seq_id)

    with replaced(VerifyTransaction, "commit", eager):
        yield


@mutant("DRAFT-09", "ngram")
def only_the_last_chunk_is_handed_over() -> Iterator[None]:
    """The core hands the last chunk of a prompt over, as if it were the whole."""
    prefill = sequence.TargetSequence._prefill

    def lazy(self: Any, prompt: Any, on_rows: Any, on_progress: Any) -> int:
        def last_only(rows: CommittedRows) -> None:
            if rows.start_pos + len(rows.tokens) == len(prompt):
                on_rows(rows)

        return prefill(self, prompt, None if on_rows is None else last_only, on_progress)

    with replaced(sequence.TargetSequence, "_prefill", lazy):
        yield
