"""The life cycle of a drafter with a draft graph, on a graph that only counts."""

import inspect

import numpy as np
import pytest

from power_core.drafter import Drafter, DraftRequest
from power_core.errors import StateError
from power_core.graph_drafter import DraftGraph, GraphDrafter
from power_core.tokens import CommittedRows


class CountingGraph:
    """Its memory is the tokens that were fed; it drafts as many sevens as asked for, at most three."""

    def __init__(self):
        self.memory = {}
        self.closed = 0
        self.compute_ns = 12

    def clear(self, seq_id):
        self.memory[seq_id] = []

    def length_tokens(self, seq_id):
        return None if seq_id not in self.memory else len(self.memory[seq_id])

    def feed(self, rows):
        self.memory[rows.seq_id].extend(rows.tokens)

    def draft(self, request):
        tokens = [7] * min(request.limit_tokens, 3)
        return tokens, np.full(len(tokens), 0.5, np.float32) if request.p_min else None

    def save(self, seq_id):
        return tuple(self.memory[seq_id])

    def restore(self, state, seq_id):
        self.memory[seq_id] = list(state)

    def close(self):
        self.closed += 1


def begun(prompt=(1, 2), seq_id=0):
    graph = CountingGraph()
    drafter = GraphDrafter(graph)
    drafter.begin(prompt, seq_id=seq_id)
    drafter.process(CommittedRows(seq_id=seq_id, start_pos=0, tokens=prompt))
    return drafter, graph


def ask(drafter, n_past=2, limit=9, minimum=0, p_min=0.0, seq_id=0):
    return drafter.propose(
        DraftRequest(seq_id=seq_id, n_past=n_past, anchor=5, limit_tokens=limit, min_tokens=minimum, p_min=p_min)
    )


def test_protocols():
    drafter, graph = begun()
    assert isinstance(graph, DraftGraph)
    assert isinstance(drafter, Drafter)
    assert drafter.compute_ns == 12
    for name in ("begin", "process", "propose", "accept", "checkpoint", "restore", "close"):
        ours = inspect.signature(getattr(GraphDrafter, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(Drafter, name)).parameters)


def test_facts_of_the_graph_are_those_of_the_drafter():
    drafter, graph = begun()
    assert drafter.facts == {}
    graph.facts = {"rows": 64}
    assert drafter.facts == {"rows": 64}


def test_rows_reach_the_graph_and_no_rows_do_not():
    drafter, graph = begun(prompt=(1, 2))
    graph.feed = None
    drafter.process(CommittedRows(start_pos=2, tokens=()))
    assert graph.memory == {0: [1, 2]}


def test_begin_empties_the_memory_and_closes_an_open_proposal():
    drafter, graph = begun()
    ask(drafter)
    drafter.begin([9])
    assert graph.memory == {0: []}
    with pytest.raises(StateError, match="0 are proposed and open"):
        drafter.accept(0)


def test_a_proposal_carries_sequence_tokens_and_confidence():
    drafter, _ = begun(seq_id=3)
    proposal = ask(drafter, limit=2, p_min=0.25, seq_id=3)
    assert (proposal.seq_id, list(proposal.tokens), proposal.confidence.tolist()) == (3, [7, 7], [0.5, 0.5])
    assert ask(drafter, seq_id=3).confidence is None


@pytest.mark.parametrize(("minimum", "kept"), [(0, 3), (3, 3), (4, 0)])
def test_a_proposal_below_the_minimum_is_dropped_and_not_open(minimum, kept):
    drafter, _ = begun()
    assert len(ask(drafter, minimum=minimum).tokens) == kept
    if kept:
        drafter.accept(kept)
    with pytest.raises(StateError, match="0 are proposed and open"):
        drafter.accept(0)


@pytest.mark.parametrize("accepted", [-1, 4])
def test_accept_stays_within_the_proposal(accepted):
    drafter, _ = begun()
    ask(drafter)
    with pytest.raises(StateError, match=f"{accepted} accepted tokens, but 3 are proposed and open"):
        drafter.accept(accepted)


@pytest.mark.parametrize("n_past", [0, 1, 3])
def test_an_anchor_out_of_step_is_refused(n_past):
    drafter, _ = begun()
    with pytest.raises(StateError, match=f"position {n_past}, the drafter was fed 2 rows"):
        ask(drafter, n_past=n_past)


def test_restore_brings_memory_and_open_proposal_back():
    drafter, graph = begun()
    ask(drafter)
    mark = drafter.checkpoint()
    drafter.process(CommittedRows(start_pos=2, tokens=[5, 7]))
    drafter.accept(1)
    drafter.restore(mark)
    assert graph.memory == {0: [1, 2]}
    drafter.accept(3)


CALLS = {
    "process": lambda drafter, mark: drafter.process(CommittedRows(seq_id=1, start_pos=0, tokens=[1])),
    "propose": lambda drafter, mark: ask(drafter, n_past=0, seq_id=1),
    "accept": lambda drafter, mark: drafter.accept(0, seq_id=1),
    "checkpoint": lambda drafter, mark: drafter.checkpoint(seq_id=1),
    "restore": lambda drafter, mark: drafter.restore(mark, seq_id=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_before_begin_are_refused(name):
    drafter, _ = begun()
    with pytest.raises(StateError, match=f"`{name}` cannot run: sequence 1 was not begun"):
        CALLS[name](drafter, drafter.checkpoint())


@pytest.mark.parametrize("name", [*CALLS, "begin"])
def test_calls_after_close_are_refused_and_close_may_be_repeated(name):
    drafter, graph = begun(seq_id=1)
    mark = drafter.checkpoint(seq_id=1)
    drafter.close()
    drafter.close()
    assert graph.closed == 2
    calls = {**CALLS, "begin": lambda drafter, mark: drafter.begin([1], seq_id=1)}
    with pytest.raises(StateError, match=f"`{name}` cannot run: the drafter is closed"):
        calls[name](drafter, mark)
