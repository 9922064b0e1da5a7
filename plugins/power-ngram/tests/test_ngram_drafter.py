"""The lookup against a slow reading of the rules, and the drafter's life cycle."""

import inspect
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.drafter import Drafter, DraftRequest, Proposal
from power_core.errors import ConfigError, StateError
from power_core.tokens import CommittedRows
from power_ngram.config import NgramConfig
from power_ngram.drafter import NgramDrafter, NgramIndex

PROMPT_LOOKUP = NgramConfig()
NGRAM_CONTEXT = NgramConfig(own_output_first=True)

TOKENS = st.lists(st.integers(0, 2), max_size=40)
FEW_TOKENS = st.lists(st.integers(0, 2), max_size=6)


def search(suffix: Sequence[int], text: Sequence[int], limit: int) -> list[int]:
    """The most recent place where ``suffix`` stands in ``text`` and something follows it; what follows."""
    for start in reversed(range(len(text) - len(suffix))):
        if list(text[start : start + len(suffix)]) == list(suffix):
            return list(text[start + len(suffix) :][:limit])
    return []


def slow_prompt_lookup(prompt: Sequence[int], generated: Sequence[int], limit: int) -> list[int]:
    if len(generated) < 2 or len(prompt) < 3:
        return []
    hits = (search(generated[-n:], prompt, limit) for n in range(min(5, len(generated)), 1, -1))
    return next(filter(None, hits), [])


def slow_ngram_context(prompt: Sequence[int], generated: Sequence[int], limit: int) -> list[int]:
    if len(generated) > 2:
        for n in range(min(5, len(generated)), 1, -1):
            if found := search(generated[-n:], generated, limit):
                return found
    return slow_prompt_lookup(prompt, generated, limit)


SLOW = {PROMPT_LOOKUP: slow_prompt_lookup, NGRAM_CONTEXT: slow_ngram_context}


def primed(config: NgramConfig, prompt: Sequence[int], committed: Sequence[int] = (), seq_id: int = 0) -> NgramDrafter:
    """A drafter that was fed the prompt in one chunk and the committed output token by token."""
    drafter = NgramDrafter(config)
    feed(drafter, prompt, committed, seq_id)
    return drafter


def feed(drafter: NgramDrafter, prompt: Sequence[int], committed: Sequence[int] = (), seq_id: int = 0) -> None:
    drafter.begin(prompt, seq_id=seq_id)
    drafter.process(CommittedRows(seq_id=seq_id, start_pos=0, tokens=prompt))
    for place, token in enumerate(committed, len(prompt)):
        drafter.process(CommittedRows(seq_id=seq_id, start_pos=place, tokens=[token]))


def ask(
    drafter: NgramDrafter, n_past: int, anchor: int, limit: int = 4, minimum: int = 0, seq_id: int = 0
) -> list[int]:
    request = DraftRequest(seq_id=seq_id, n_past=n_past, anchor=anchor, limit_tokens=limit, min_tokens=minimum)
    proposal = drafter.propose(request)
    assert isinstance(proposal, Proposal)
    assert (proposal.seq_id, proposal.confidence) == (seq_id, None)
    return list(proposal.tokens)


def drafts(
    config: NgramConfig, prompt: Sequence[int], generated: Sequence[int], limit: int = 4, minimum: int = 0
) -> list[int]:
    """Drafts after ``generated``, whose last token is the anchor."""
    *committed, anchor = generated
    return ask(primed(config, prompt, committed), len(prompt) + len(committed), anchor, limit, minimum)


@pytest.mark.parametrize(
    ("prompt", "generated", "expected"),
    [
        pytest.param([1, 2, 3, 4, 5, 6], [1, 2], [3, 4, 5, 6], id="finds the continuation"),
        pytest.param([1, 2, 7, 9, 1, 2, 8, 9], [1, 2], [8, 9], id="the last occurrence wins"),
        pytest.param([1, 2, 3, 7, 0, 2, 3, 8], [1, 2, 3], [7, 0, 2, 3], id="a longer n-gram wins over a later one"),
        pytest.param([9, 1, 2, 3, 4, 5, 7, 8, 1, 2, 3, 4, 5, 6], [9, 1, 2, 3, 4, 5], [6], id="five is the longest"),
        pytest.param([1, 2, 3, 4], [5, 6], [], id="no match"),
        pytest.param([1, 2, 3, 4], [2], [], id="one generated token is too short"),
        pytest.param([1, 2], [1, 2], [], id="a prompt of two is too short"),
        pytest.param([1, 2, 3], [1, 2], [3], id="a prompt of three is enough"),
        pytest.param([1, 2, 3, 1, 2], [1, 2], [3, 1, 2], id="a match at the end is no hit, an earlier one is"),
        pytest.param([3, 4, 1, 2], [1, 2], [], id="only a match at the end"),
        pytest.param([1, 2, 3, 4], [4, 5, 4, 5], [], id="its own output is not searched"),
        pytest.param([], [1, 2], [], id="empty prompt"),
    ],
)
def test_prompt_lookup_rules(prompt, generated, expected):
    assert drafts(PROMPT_LOOKUP, prompt, generated) == expected


@pytest.mark.parametrize(
    ("prompt", "generated", "expected"),
    [
        pytest.param([1, 2, 9, 9], [1, 2, 3, 1, 2], [3, 1, 2], id="own output first"),
        pytest.param([1, 2, 9, 9], [5, 1, 2], [9, 9], id="then the prompt"),
        pytest.param([1, 2, 9, 9], [1, 2], [9, 9], id="two tokens of output: the prompt"),
        pytest.param([], [4, 4, 4], [4], id="may overlap itself, not match itself"),
        pytest.param([1, 2, 3, 9, 9], [2, 3, 7, 1, 2, 3], [7, 1, 2, 3], id="short in the output before the prompt"),
        pytest.param([1, 2], [7, 8, 9], [], id="no match anywhere"),
    ],
)
def test_ngram_context_rules(prompt, generated, expected):
    assert drafts(NGRAM_CONTEXT, prompt, generated) == expected


@pytest.mark.parametrize(("limit", "expected"), [(1, [3]), (2, [3, 4]), (3, [3, 4, 5]), (64, [3, 4, 5])])
def test_proposal_is_bounded_by_the_limit(limit, expected):
    assert drafts(PROMPT_LOOKUP, [1, 2, 3, 4, 5], [1, 2], limit) == expected


@pytest.mark.parametrize(("minimum", "expected"), [(0, [3]), (1, [3]), (2, [])])
def test_proposal_shorter_than_the_minimum_is_dropped(minimum, expected):
    assert drafts(PROMPT_LOOKUP, [1, 2, 3], [1, 2], 4, minimum) == expected


@pytest.mark.parametrize("config", SLOW, ids=["prompt-lookup", "ngram-context"])
@given(prompt=TOKENS, generated=TOKENS.filter(bool), limit=st.integers(1, 8))
def test_equals_the_slow_search(config, prompt, generated, limit):
    assert drafts(config, prompt, generated, limit) == SLOW[config](prompt, generated, limit)


@pytest.mark.parametrize("config", SLOW, ids=["prompt-lookup", "ngram-context"])
@given(prompt=TOKENS, generated=TOKENS.filter(bool), chunk=st.integers(1, 7))
def test_every_round_of_one_request_equals_the_slow_search(config, prompt, generated, chunk):
    drafter = NgramDrafter(config)
    drafter.begin(prompt)
    for start in range(0, len(prompt), chunk):
        drafter.process(CommittedRows(start_pos=start, tokens=prompt[start : start + chunk]))
    committed = 0
    while committed < len(generated):
        expected = SLOW[config](prompt, generated[: committed + 1], 4)
        assert ask(drafter, len(prompt) + committed, generated[committed]) == expected
        rows = generated[committed : committed + chunk]
        drafter.process(CommittedRows(start_pos=len(prompt) + committed, tokens=rows))
        drafter.accept(min(len(expected), len(rows) - 1))
        committed += len(rows)


@given(kept=TOKENS, added=FEW_TOKENS, suffix=FEW_TOKENS.filter(bool), lengths=st.sampled_from([(1, 1), (1, 3), (2, 5)]))
def test_index_truncated_equals_index_never_extended(kept, added, suffix, lengths):
    config = NgramConfig(min_ngram_tokens=lengths[0], max_ngram_tokens=lengths[1])
    fresh, used = NgramIndex(config), NgramIndex(config)
    for token in kept:
        fresh.append(token)
    for token in kept + added:
        used.append(token)
    used.truncate(len(kept))
    assert used.tokens == fresh.tokens
    assert used.continuation(suffix, 64) == fresh.continuation(suffix, 64)


class _Interrupting(list):
    """A list whose nth ``append`` or ``pop`` raises before or after it did its work."""

    def __init__(self, items, calls, after):
        super().__init__(items)
        self.calls, self.after = calls, after

    def append(self, item):
        self._step(lambda: super(_Interrupting, self).append(item))

    def pop(self):
        self._step(lambda: super(_Interrupting, self).pop())

    def _step(self, work):
        self.calls -= 1
        if self.calls == 0 and not self.after:
            raise KeyboardInterrupt
        work()
        if self.calls == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [False, True])
@given(kept=TOKENS, added=FEW_TOKENS.filter(bool), calls=st.integers(1, 40), suffix=FEW_TOKENS.filter(bool))
def test_index_is_exact_after_an_interruption_at_any_step(after, kept, added, calls, suffix):
    fresh, used = NgramIndex(NGRAM_CONTEXT), NgramIndex(NGRAM_CONTEXT)
    for token in kept:
        fresh.append(token)
        used.append(token)
    used._undo = _Interrupting(used._undo, calls, after)
    try:
        for token in added:
            used.append(token)
        used.truncate(len(kept))
    except KeyboardInterrupt:
        used.truncate(len(kept))
    assert used.tokens == fresh.tokens
    assert used.continuation(suffix, 64) == fresh.continuation(suffix, 64)


@given(prompt=TOKENS, committed=TOKENS, lost=FEW_TOKENS, anchor=st.integers(0, 2))
def test_restore_undoes_process(prompt, committed, lost, anchor):
    drafter = primed(NGRAM_CONTEXT, prompt, committed)
    n_past = len(prompt) + len(committed)
    mark = drafter.checkpoint()
    drafter.process(CommittedRows(start_pos=n_past, tokens=[anchor, *lost]))
    drafter.restore(mark)
    assert ask(drafter, n_past, anchor) == slow_ngram_context(prompt, [*committed, anchor], 4)


def test_restore_during_the_prompt():
    drafter = NgramDrafter(PROMPT_LOOKUP)
    drafter.begin([1, 2, 3, 4])
    drafter.process(CommittedRows(start_pos=0, tokens=[1, 2]))
    mark = drafter.checkpoint()
    drafter.process(CommittedRows(start_pos=2, tokens=[9, 9]))
    drafter.process(CommittedRows(start_pos=4, tokens=[1, 2]))
    drafter.restore(mark)
    drafter.process(CommittedRows(start_pos=2, tokens=[3, 4]))
    drafter.process(CommittedRows(start_pos=4, tokens=[1]))
    assert ask(drafter, 5, 2) == [3, 4]


def test_propose_leaves_no_trace():
    drafter = primed(NGRAM_CONTEXT, [1, 2, 3], [5, 6, 7, 5])
    assert ask(drafter, 7, 6) == [7, 5, 6]
    assert ask(drafter, 7, 5) == []
    assert ask(drafter, 7, 6) == [7, 5, 6]


def test_begin_forgets_the_earlier_request():
    drafter = primed(NGRAM_CONTEXT, [1, 2, 3, 4, 5, 6, 7], [1, 2, 3])
    feed(drafter, [8, 9], [1])
    assert ask(drafter, 3, 2) == []


def test_sequences_are_independent():
    drafter = primed(PROMPT_LOOKUP, [1, 2, 3, 4], [1], seq_id=0)
    feed(drafter, [1, 2, 7, 8, 9], [1], seq_id=5)
    mark = drafter.checkpoint(seq_id=5)
    drafter.process(CommittedRows(seq_id=5, start_pos=6, tokens=[2]))
    drafter.restore(mark, seq_id=5)
    assert ask(drafter, 5, 2, seq_id=0) == [3, 4]
    assert ask(drafter, 6, 2, seq_id=5) == [7, 8, 9]


@pytest.mark.parametrize("start", [0, 3, 5])
def test_rows_out_of_order_are_refused(start):
    drafter = primed(PROMPT_LOOKUP, [1, 2, 3, 4])
    with pytest.raises(StateError, match=f"position {start} of sequence 0, expected 4"):
        drafter.process(CommittedRows(start_pos=start, tokens=[1]))
    with pytest.raises(StateError, match=f"`propose` was called at position {start}"):
        ask(drafter, start, 1)


def test_a_sequence_that_was_not_begun_is_refused():
    drafter = primed(PROMPT_LOOKUP, [1, 2, 3])
    calls = [
        lambda: drafter.process(CommittedRows(seq_id=1, start_pos=0, tokens=[1])),
        lambda: ask(drafter, 0, 1, seq_id=1),
        lambda: drafter.checkpoint(seq_id=1),
        lambda: drafter.restore((0, 0), seq_id=1),
    ]
    for call in calls:
        with pytest.raises(StateError, match="sequence 1 was not begun"):
            call()


def test_close_frees_everything_and_may_be_repeated():
    drafter = primed(PROMPT_LOOKUP, [1, 2, 3])
    drafter.close()
    drafter.close()
    with pytest.raises(StateError):
        drafter.checkpoint()


def test_implements_the_protocol():
    assert isinstance(NgramDrafter(PROMPT_LOOKUP), Drafter)
    for name in ("begin", "process", "propose", "accept", "checkpoint", "restore", "close"):
        ours = inspect.signature(getattr(NgramDrafter, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(Drafter, name)).parameters)


@pytest.mark.parametrize("lengths", [(0, 5), (3, 2), (-1, -1)])
def test_lengths_out_of_range_are_refused(lengths):
    with pytest.raises(ConfigError, match="expected 1 <= min <= max"):
        NgramConfig(min_ngram_tokens=lengths[0], max_ngram_tokens=lengths[1])


def test_shortest_match_is_a_setting():
    config = NgramConfig(min_ngram_tokens=1)
    assert drafts(config, [1, 2, 3], [9, 1]) == [2, 3]
    assert drafts(config, [1, 2, 3], [1]) == [2, 3]


def test_work_of_a_round_does_not_grow_with_the_prompt(monkeypatch):
    probes = []
    original = NgramIndex._ngram

    def counted(self, length, end):
        probes.append(length)
        return original(self, length, end)

    for size in (10, 2000):
        drafter = primed(NGRAM_CONTEXT, [1, 2] * (size // 2), [1])
        monkeypatch.setattr(NgramIndex, "_ngram", counted)
        ask(drafter, size + 1, 2)
        monkeypatch.setattr(NgramIndex, "_ngram", original)
    assert probes == [2, 3, 4, 5, 5, 4, 3, 2] * 2
