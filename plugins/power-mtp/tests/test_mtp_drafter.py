"""Pairing of tokens with state rows, and the drafter's life cycle, on a chain that remembers what it was fed."""

import inspect
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.drafter import Drafter, DraftRequest
from power_core.errors import NativeCallError, StateError
from power_core.graph_drafter import GraphDrafter
from power_core.tokens import CommittedRows, Taps
from power_mtp.graph import MtpGraph

WIDTH = 3
NOTHING = (0.0, 0.0, 0.0)

TOKENS = st.lists(st.integers(0, 99), min_size=1, max_size=24)


def state_row(seq_id, position, token):
    """What the target's row at a position looks like: it names its place, so a wrong row is visible."""
    return (float(seq_id + 1), float(position + 1), float(token))


class FakeHeads:
    """Stands for the chain and its context.

    A position is a cell that all heads share; each head writes its own (token, state row) there. Dropping positions
    erases nothing, as in the library. Drafts depend on all that the head wrote below the length, so a row that should
    not be there, or one that a head did not write, changes them. ``fail_after`` lets that many ``feed`` calls succeed;
    the next call stops half-way.
    """

    def __init__(self, heads=1, batch_rows=512):
        self.context = self
        self.heads = heads
        self.batch_rows = batch_rows
        self.cells = {}
        self.lengths = {}
        self.head = 0
        self.calls = []
        self.fail_after = None
        self.closed = 0

    def fed(self, head, seq_id=0):
        return self.cells.get((seq_id, head), [])[: self.lengths[seq_id]]

    def clear(self, seq_id):
        self.lengths[seq_id] = 0

    def truncate(self, length_tokens, seq_id):
        assert length_tokens <= self.lengths[seq_id]
        self.lengths[seq_id] = length_tokens

    def set_nextn_head(self, head):
        self.head = head

    def feed(self, tokens, start_pos, states, *, seq_id):
        assert states.shape == (len(tokens), WIDTH)
        assert len(tokens) <= self.batch_rows
        rows = list(zip(tokens, map(tuple, states.tolist()), strict=True))
        if self.fail_after == 0:
            self._write(self.head, start_pos, rows[: len(rows) // 2], seq_id)
            raise NativeCallError("stopped half-way")
        if self.fail_after is not None:
            self.fail_after -= 1
        self._write(self.head, start_pos, rows, seq_id)

    def draft(self, *, first_pos, token, state, max_tokens, p_min, heads, seq_id, probabilities):
        assert first_pos == self.lengths[seq_id]
        assert heads == self.heads
        assert heads == 1 or max_tokens <= heads
        self.calls.append({"max_tokens": max_tokens, "p_min": p_min})
        tokens, chain = [], [(token, tuple(state.tolist()))]
        for step in range(max_tokens):
            head = step if heads > 1 else 0
            tokens.append(zlib.crc32(repr((self.fed(head, seq_id), chain, step)).encode()) % 100)
            self._write(head, first_pos, chain, seq_id)
            if self.fail_after == step:
                raise NativeCallError("stopped half-way")
            self.lengths[seq_id] = first_pos
            chain.append((tokens[-1], NOTHING))
        return tokens, np.linspace(0.9, 0.5, max_tokens, dtype=np.float32) if probabilities else None

    def _write(self, head, start_pos, rows, seq_id):
        assert start_pos == self.lengths[seq_id]
        self.cells.setdefault((seq_id, head), [])[start_pos : start_pos + len(rows)] = rows
        self.lengths[seq_id] = start_pos + len(rows)

    def close(self):
        self.closed += 1


def open_drafter(heads=1, batch_rows=512, max_tokens=3):
    fake = FakeHeads(heads, batch_rows)
    return GraphDrafter(MtpGraph(fake, heads=heads, n_embd=WIDTH, max_tokens=max_tokens)), fake


def rows(tokens, start_pos, seq_id=0):
    """Committed rows of one evaluation, with the target's state rows."""
    nextn = np.array([state_row(seq_id, start_pos + at, token) for at, token in enumerate(tokens)], np.float32)
    return CommittedRows(seq_id=seq_id, start_pos=start_pos, tokens=tokens, taps=Taps(nextn=nextn))


def feed(drafter, tokens, chunk=512, start_pos=0, seq_id=0):
    for at in range(0, len(tokens), chunk):
        drafter.process(rows(tokens[at : at + chunk], start_pos + at, seq_id))


def primed(tokens, seq_id=0, **options):
    drafter, fake = open_drafter(**options)
    drafter.begin(tokens, seq_id=seq_id)
    feed(drafter, tokens, seq_id=seq_id)
    return drafter, fake


def ask(drafter, n_past, anchor=7, limit=3, minimum=0, p_min=0.0, seq_id=0):
    request = DraftRequest(
        seq_id=seq_id, n_past=n_past, anchor=anchor, limit_tokens=limit, min_tokens=minimum, p_min=p_min
    )
    return drafter.propose(request)


def drafts(drafter, n_past, **options):
    return list(ask(drafter, n_past, **options).tokens)


# ------------------------------------------------------------------------------------------------------------- pairing


@pytest.mark.parametrize("heads", [1, 3])
@given(tokens=TOKENS, chunk=st.integers(1, 9), batch_rows=st.integers(1, 9), seq_id=st.integers(0, 2))
def test_each_token_is_fed_once_with_the_state_row_before_it(heads, tokens, chunk, batch_rows, seq_id):
    drafter, fake = open_drafter(heads, batch_rows)
    drafter.begin(tokens, seq_id=seq_id)
    feed(drafter, tokens, chunk, seq_id=seq_id)
    before = [NOTHING, *(state_row(seq_id, at, token) for at, token in enumerate(tokens))]
    for head in range(heads):
        assert fake.fed(head, seq_id) == list(zip(tokens, before[:-1], strict=True))
    state, _ = drafter.checkpoint(seq_id=seq_id)
    assert tuple(state.pending.tolist()) == before[-1]


@pytest.mark.parametrize("heads", [1, 3])
@given(prompt=TOKENS, accepted=st.lists(st.integers(0, 3), max_size=8), chunk=st.integers(1, 9))
def test_after_any_rejections_drafts_equal_those_of_a_fresh_drafter(heads, prompt, accepted, chunk):
    drafter, _ = open_drafter(heads)
    drafter.begin(prompt)
    feed(drafter, prompt, chunk)
    committed, anchor = list(prompt), 7
    for count in accepted:
        own = drafts(drafter, len(committed), anchor=anchor)
        kept = [anchor, *own[:count]]
        drafter.process(rows(kept, len(committed)))
        drafter.accept(count)
        committed += kept
        anchor += 1
    fresh, _ = primed(committed, heads=heads)
    assert drafts(drafter, len(committed), anchor=anchor) == drafts(fresh, len(committed), anchor=anchor)


def test_terminal_round_commits_less_than_was_accepted():
    drafter, _ = primed([1, 2])
    assert len(drafts(drafter, 2)) == 3
    drafter.process(rows([7, 40], 2))
    drafter.accept(2)
    fresh, _ = primed([1, 2, 7, 40])
    assert drafts(drafter, 4) == drafts(fresh, 4)


def test_a_kept_row_is_the_last_committed_one_without_a_copy():
    drafter, _ = open_drafter()
    drafter.begin([5])
    chunk = rows([4, 5], 0)
    drafter.process(chunk)
    pending = drafter.checkpoint()[0].pending
    assert tuple(pending.tolist()) == state_row(0, 1, 5)
    assert np.shares_memory(pending, chunk.taps.nextn)


def test_sequences_are_independent():
    drafter, _ = primed([1, 2, 3], seq_id=0)
    drafter.begin([9], seq_id=4)
    feed(drafter, [9], seq_id=4)
    assert ask(drafter, 1, seq_id=4).seq_id == 4
    alone, _ = primed([1, 2, 3], seq_id=0)
    assert drafts(drafter, 3) == drafts(alone, 3)
    mark = drafter.checkpoint(seq_id=4)
    drafter.process(rows([8], 1, seq_id=4))
    drafter.restore(mark, seq_id=4)
    assert drafts(drafter, 3) == drafts(alone, 3)


# ----------------------------------------------------------------------------------------------------------- proposals


@pytest.mark.parametrize(
    ("heads", "limit", "expected"), [(1, 1, 1), (1, 5, 5), (1, 9, 5), (2, 5, 2), (3, 2, 2), (3, 5, 3), (8, 9, 5)]
)
def test_length_is_bounded_by_limit_and_heads(heads, limit, expected):
    drafter, fake = primed([1, 2], heads=heads, max_tokens=5)
    assert len(drafts(drafter, 2, limit=limit)) == expected
    assert fake.calls == [{"max_tokens": expected, "p_min": 0.0}]


def test_threshold_reaches_the_chain_and_probabilities_come_back():
    drafter, fake = primed([1, 2])
    proposal = ask(drafter, 2, p_min=0.25)
    assert fake.calls == [{"max_tokens": 3, "p_min": 0.25}]
    assert proposal.confidence.dtype == np.float32
    assert proposal.confidence.tolist() == pytest.approx([0.9, 0.7, 0.5])


@pytest.mark.parametrize(("minimum", "expected"), [(0, 3), (3, 3), (4, 0)])
def test_proposal_shorter_than_the_minimum_is_dropped(minimum, expected):
    drafter, _ = primed([1, 2])
    proposal = ask(drafter, 2, minimum=minimum)
    assert len(proposal.tokens) == expected
    assert proposal.confidence is None


def test_dropped_proposal_is_not_open():
    drafter, _ = primed([1, 2])
    ask(drafter, 2)
    ask(drafter, 2, minimum=4)
    with pytest.raises(StateError, match="0 are proposed and open"):
        drafter.accept(0)


def test_proposal_may_be_repeated():
    drafter, _ = primed([1, 2])
    first = drafts(drafter, 2)
    assert drafts(drafter, 2, anchor=8) != first
    assert drafts(drafter, 2) == first


# ------------------------------------------------------------------------------------------------- requests and restore


def test_begin_on_a_used_drafter_equals_a_fresh_one():
    drafter, _ = primed([1, 2, 3, 4, 5])
    drafts(drafter, 5)
    for prompt in ([9, 8], [1, 2, 3, 4, 5], [1]):
        drafter.begin(prompt)
        feed(drafter, prompt)
        fresh, _ = primed(prompt)
        assert drafts(drafter, len(prompt)) == drafts(fresh, len(prompt))


@pytest.mark.parametrize("heads", [1, 3])
@given(prompt=TOKENS, added=TOKENS, failing=st.none() | st.integers(0, 2))
def test_restore_undoes_a_round_that_ended_anywhere(heads, prompt, added, failing):
    drafter, fake = primed(prompt, heads=heads)
    mark = drafter.checkpoint()
    drafts(drafter, len(prompt))
    fake.fail_after = failing
    try:
        drafter.process(rows(added, len(prompt)))
    except NativeCallError:
        assert failing is not None
    drafter.restore(mark)
    fake.fail_after = None
    feed(drafter, added, start_pos=len(prompt))
    fresh, _ = primed(prompt + added, heads=heads)
    assert drafts(drafter, len(prompt + added)) == drafts(fresh, len(prompt + added))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_restore_after_a_failed_proposal(heads, failing):
    drafter, fake = primed([1, 2, 3], heads=heads)
    expected = drafts(drafter, 3)
    mark = drafter.checkpoint()
    fake.fail_after = failing
    with pytest.raises(NativeCallError):
        drafts(drafter, 3)
    drafter.restore(mark)
    fake.fail_after = None
    assert drafts(drafter, 3) == expected


def test_restore_brings_an_open_proposal_back():
    drafter, _ = primed([1, 2])
    ask(drafter, 2)
    mark = drafter.checkpoint()
    drafter.accept(1)
    drafter.restore(mark)
    drafter.accept(3)


# -------------------------------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize("accepted", [-1, 4])
def test_accept_outside_the_proposal_is_refused(accepted):
    drafter, _ = primed([1, 2])
    ask(drafter, 2)
    with pytest.raises(StateError, match=f"{accepted} accepted tokens, but 3 are proposed and open"):
        drafter.accept(accepted)


def test_accept_twice_or_without_a_proposal_is_refused():
    drafter, _ = primed([1, 2])
    with pytest.raises(StateError, match="0 are proposed"):
        drafter.accept(0)
    ask(drafter, 2)
    drafter.accept(2)
    with pytest.raises(StateError, match="0 are proposed"):
        drafter.accept(2)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_rows_out_of_order_are_refused_and_change_nothing(start):
    drafter, fake = primed([1, 2])
    with pytest.raises(StateError, match=f"start at position {start}, expected 2"):
        drafter.process(rows([5], start))
    with pytest.raises(StateError, match=f"position {start}, the drafter was fed 2 rows"):
        ask(drafter, start)
    assert fake.lengths == {0: 2}


@pytest.mark.parametrize(
    "taps", [None, Taps(), Taps(nextn=np.zeros((1, WIDTH), np.float32)), Taps(nextn=np.zeros((2, 4), np.float32))]
)
def test_rows_without_their_state_rows_are_refused(taps):
    drafter, _ = open_drafter()
    drafter.begin([1, 2])
    with pytest.raises(StateError, match=r"expected \(2, 3\)"):
        drafter.process(CommittedRows(start_pos=0, tokens=[1, 2], taps=taps))


def test_no_rows_are_no_work():
    drafter, fake = primed([1])
    fake.fail_after = 0
    drafter.process(CommittedRows(start_pos=1, tokens=[]))
    assert fake.lengths == {0: 1}


CALLS = {
    "process": lambda drafter, mark: drafter.process(rows([1], 0, seq_id=1)),
    "propose": lambda drafter, mark: ask(drafter, 0, seq_id=1),
    "accept": lambda drafter, mark: drafter.accept(0, seq_id=1),
    "checkpoint": lambda drafter, mark: drafter.checkpoint(seq_id=1),
    "restore": lambda drafter, mark: drafter.restore(mark, seq_id=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_before_begin_are_refused(name):
    drafter, _ = primed([1])
    with pytest.raises(StateError, match=f"`{name}` cannot run: sequence 1 was not begun"):
        CALLS[name](drafter, drafter.checkpoint())


@pytest.mark.parametrize("name", [*CALLS, "begin"])
def test_calls_after_close_are_refused(name):
    drafter, fake = primed([1], seq_id=1)
    mark = drafter.checkpoint(seq_id=1)
    drafter.close()
    drafter.close()
    assert fake.closed == 2
    calls = {**CALLS, "begin": lambda drafter, mark: drafter.begin([1], seq_id=1)}
    with pytest.raises(StateError, match=f"`{name}` cannot run: the drafter is closed"):
        calls[name](drafter, mark)


def test_implements_the_protocol():
    drafter, _ = open_drafter()
    assert isinstance(drafter, Drafter)
    for name in ("begin", "process", "propose", "accept", "checkpoint", "restore", "close"):
        ours = inspect.signature(getattr(GraphDrafter, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(Drafter, name)).parameters)
