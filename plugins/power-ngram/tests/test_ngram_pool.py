"""The pool against a slow reading of its rules, and its drafter's life cycle."""

import inspect
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.drafter import Drafter, DraftRequest
from power_core.errors import ConfigError, StateError
from power_core.tokens import CommittedRows
from power_ngram.config import NgramPoolConfig
from power_ngram.pool import NgramPool
from power_ngram.pool_drafter import NgramPoolDrafter

SMALL = NgramPoolConfig(min_ngram_tokens=2, max_ngram_tokens=4, candidates=3)
CONFIGS = (NgramPoolConfig(), SMALL, NgramPoolConfig(min_ngram_tokens=1, max_ngram_tokens=1, candidates=1))
TOKENS = st.lists(st.integers(0, 2), max_size=60)
ANCHOR = st.integers(0, 2)


def slow_continuation(config: NgramPoolConfig, tokens: Sequence[int], anchor: int, limit: int) -> list[int]:
    """Compare every place, newest first, and copy token by token."""
    text, shortest = [*tokens, anchor], config.min_ngram_tokens
    places = [
        place
        for place in range(len(tokens), shortest - 1, -1)
        if len(text) > shortest and text[place - shortest : place] == text[-shortest:]
    ][: config.candidates]

    def matched(place: int) -> int:
        lengths = range(shortest, min(config.max_ngram_tokens, place) + 1)
        return max(length for length in lengths if text[place - length : place] == text[-length:])

    best = max(places, key=matched, default=None)  # the first of equals, so the latest
    if best is None:
        return []
    for at in range(limit):
        text.append(text[best + at])
    return text[len(tokens) + 1 :]


def filled(config: NgramPoolConfig, tokens: Sequence[int]) -> NgramPool:
    pool = NgramPool(config)
    pool.extend(tokens)
    return pool


def fed(prompt: Sequence[int], generated: Sequence[int] = (), chunk: int = 100, seq_id: int = 0) -> NgramPoolDrafter:
    drafter = NgramPoolDrafter(NgramPoolConfig())
    feed(drafter, prompt, generated, chunk, seq_id)
    return drafter


def feed(
    drafter: NgramPoolDrafter, prompt: Sequence[int], generated: Sequence[int] = (), chunk: int = 100, seq_id: int = 0
) -> None:
    drafter.begin(prompt, seq_id=seq_id)
    text = [*prompt, *generated]
    for start in range(0, len(text), chunk):
        drafter.process(CommittedRows(seq_id=seq_id, start_pos=start, tokens=text[start : start + chunk]))


def ask(drafter: NgramPoolDrafter, n_past: int, anchor: int, limit: int = 4, minimum: int = 0, seq_id: int = 0):
    request = DraftRequest(seq_id=seq_id, n_past=n_past, anchor=anchor, limit_tokens=limit, min_tokens=minimum)
    proposal = drafter.propose(request)
    assert (proposal.seq_id, proposal.confidence) == (seq_id, None)
    return list(proposal.tokens)


@pytest.mark.parametrize(
    ("tokens", "anchor", "expected"),
    [
        pytest.param([1, 2, 3, 4, 5, 6, 1, 2], 3, [4, 5, 6, 1, 2, 3], id="finds the continuation"),
        pytest.param([9, 1, 2, 3, 4, 8, 1, 2, 3, 5, 9, 1, 2], 3, [4, 8, 1, 2, 3, 5], id="a longer match beats a later"),
        pytest.param([8, 1, 2, 3, 4, 8, 1, 2, 3, 5, 8, 1, 2], 3, [5, 8, 1, 2, 3, 5], id="the later of equals"),
        pytest.param([7, 7, 7], 7, [7] * 6, id="goes round in a circle of one"),
        pytest.param([1, 2, 3, 1, 2], 3, [1, 2, 3, 1, 2, 3], id="goes round in a circle of three"),
        pytest.param([1, 2, 3, 1], 2, [], id="two tokens are too short"),
        pytest.param([1, 2], 3, [], id="nothing matches itself"),
        pytest.param([], 3, [], id="empty"),
    ],
)
def test_rules(tokens, anchor, expected):
    assert filled(NgramPoolConfig(), tokens).continuation(anchor, 6) == expected


@pytest.mark.parametrize("config", CONFIGS)
@given(tokens=TOKENS, anchor=ANCHOR, limit=st.integers(1, 70))
def test_equals_the_slow_search(config, tokens, anchor, limit):
    assert filled(config, tokens).continuation(anchor, limit) == slow_continuation(config, tokens, anchor, limit)


@given(before=TOKENS, added=TOKENS, anchor=ANCHOR, kept=st.integers(0, 120))
def test_truncated_pool_equals_a_fresh_one(before, added, anchor, kept):
    used = filled(SMALL, [*before, *added])
    used.truncate(kept)
    fresh = filled(SMALL, [*before, *added][:kept])
    assert vars(used) == vars(fresh)
    assert used.continuation(anchor, 8) == fresh.continuation(anchor, 8)


class _Stops(Exception):
    pass


class _Interrupting(list):
    """A list whose nth ``append`` or ``pop`` raises before or after it did its work."""

    def __init__(self, items, calls, after):
        super().__init__(items)
        self.calls, self.after = calls, after

    def _step(self, work):
        self.calls -= 1
        if self.calls == 0 and not self.after:
            raise _Stops
        work()
        if self.calls == 0:
            raise _Stops

    def append(self, item):
        self._step(lambda: super(_Interrupting, self).append(item))

    def pop(self):
        self._step(lambda: super(_Interrupting, self).pop())


@pytest.mark.parametrize("after", [False, True])
@given(
    before=TOKENS, added=TOKENS.filter(bool), calls=st.integers(1, 60), which=st.sampled_from(["tokens", "_earlier"])
)
def test_pool_is_exact_after_an_interruption_at_any_step(after, before, added, calls, which):
    used, fresh = filled(SMALL, before), filled(SMALL, before)
    setattr(used, which, _Interrupting(getattr(used, which), calls, after))
    try:
        used.extend(added)
        used.truncate(len(before))
    except _Stops:
        used.truncate(len(before))
    assert vars(used) == vars(fresh)


@given(tokens=TOKENS)
def test_memory_is_bounded_by_the_tokens(tokens):
    pool = filled(SMALL, tokens)
    assert len(pool._earlier) == len(tokens)
    assert len(pool._latest) <= max(0, len(tokens) - SMALL.min_ngram_tokens + 1)


@given(prompt=TOKENS, generated=TOKENS, anchor=ANCHOR, chunk=st.integers(1, 9))
def test_drafts_do_not_depend_on_chunks(prompt, generated, anchor, chunk):
    n_past = len(prompt) + len(generated)
    assert ask(fed(prompt, generated, chunk), n_past, anchor) == ask(fed(prompt, generated), n_past, anchor)


@given(prompt=TOKENS, lost=TOKENS, anchor=ANCHOR)
def test_restore_undoes_process_and_proposing_leaves_no_trace(prompt, lost, anchor):
    drafter = fed(prompt)
    expected, mark = ask(drafter, len(prompt), anchor), drafter.checkpoint()
    drafter.process(CommittedRows(start_pos=len(prompt), tokens=lost))
    ask(drafter, len(prompt) + len(lost), anchor)
    drafter.restore(mark)
    assert ask(drafter, len(prompt), anchor) == expected


def test_begin_forgets_the_earlier_request():
    drafter = fed([1, 2, 3, 4, 5], [1, 2])
    assert ask(drafter, 7, 3) == [4, 5, 1, 2]
    feed(drafter, [7, 8, 1, 2])
    assert ask(drafter, 4, 3) == []


def test_sequences_are_independent():
    drafter = fed([1, 2, 3, 4, 5, 1, 2])
    feed(drafter, [1, 2, 3, 7, 1, 2], seq_id=5)
    assert ask(drafter, 7, 3) == [4, 5, 1, 2]
    assert ask(drafter, 6, 3, seq_id=5) == [7, 1, 2, 3]


def test_proposal_shorter_than_the_minimum_is_dropped():
    assert ask(fed([1, 2, 3, 1, 2]), 5, 3, limit=3, minimum=3) == [1, 2, 3]
    assert ask(fed([1, 2, 3, 1, 2]), 5, 3, limit=3, minimum=4) == []


@pytest.mark.parametrize("start", [0, 3, 5])
def test_rows_out_of_order_are_refused(start):
    drafter = fed([1, 2, 3, 4])
    with pytest.raises(StateError, match=f"position {start} of sequence 0, expected 4"):
        drafter.process(CommittedRows(start_pos=start, tokens=[1]))
    with pytest.raises(StateError, match=f"`propose` was called at position {start}"):
        ask(drafter, start, 1)


def test_calls_before_begin_and_after_close_are_refused():
    drafter = fed([1, 2, 3])
    with pytest.raises(StateError, match="sequence 1 was not begun"):
        drafter.checkpoint(seq_id=1)
    drafter.close()
    drafter.close()
    for call in (lambda: drafter.begin([1]), lambda: drafter.restore(0), lambda: ask(drafter, 3, 1)):
        with pytest.raises(StateError):
            call()


def test_implements_the_protocol():
    assert isinstance(NgramPoolDrafter(NgramPoolConfig()), Drafter)
    for name in ("begin", "process", "propose", "accept", "checkpoint", "restore", "close"):
        ours = inspect.signature(getattr(NgramPoolDrafter, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(Drafter, name)).parameters)


@pytest.mark.parametrize(
    "bounds",
    [
        {"min_ngram_tokens": 0},
        {"min_ngram_tokens": 5, "max_ngram_tokens": 4},
        {"candidates": 0},
    ],
)
def test_bounds_out_of_range_are_refused(bounds):
    with pytest.raises(ConfigError, match="expected"):
        NgramPoolConfig(**bounds)


def test_work_of_a_round_does_not_grow_with_the_text(monkeypatch):
    compared = []
    original = NgramPool._matched

    def counted(self, text, place):
        compared.append((place, len(text)))
        return original(self, text, place)

    monkeypatch.setattr(NgramPool, "_matched", counted)
    for size in (200, 20_000):
        compared.clear()
        text = [token for at in range(size) for token in (at % 7 + 10, 1, 2, 3)]
        filled(NgramPoolConfig(), [*text, 5, 1, 2]).continuation(3, 7)
        assert len(compared) == NgramPoolConfig().candidates
        assert {length for _, length in compared} == {NgramPoolConfig().max_ngram_tokens + 1}
