"""Prediction heads of fewer rows: the whole head's logits for the tokens that have a row, minus infinity elsewhere."""

import ctypes

import numpy as np
import pytest

from power_core.errors import ConfigError, NativeCallError
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.tokens import SequenceRows, TapRequest
from power_native import NativeModel, NextnChain, _raw

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]
END = len(TOKENS)
VOCABULARY = 512
ALIGNMENT = 4096
SHUFFLED = np.random.default_rng(4).permutation(VOCABULARY)


@pytest.fixture(scope="module", params=["F32", "F16", "Q8_0"])
def model(request, tmp_path_factory):
    path = build_tiny_target(tmp_path_factory.mktemp("heads") / "target.gguf", kind="hybrid", dtype=request.param)
    with NativeModel.open(ModelSettings(path=path, load_nextn=True)) as opened:
        yield opened


@pytest.fixture
def target(model):
    with model.open_context(
        ContextSettings(ctx_tokens=256, batch_rows=64, snapshots=4, threads=1, taps=TapRequest(nextn=True))
    ) as context:
        context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
        yield context


@pytest.fixture
def head_logits(target):
    """Return a function: the head's logits of every prompt row, and the bytes that its rows took."""
    states = np.concatenate([np.zeros((1, 256), np.float32), target.read_nextn(0, END)])

    def logits(**head):
        with target.model.open_nextn_context(target, threads=1, **head) as context:
            context.evaluate_inputs(tokens=TOKENS[:1], states=states[:1], start_pos=0, logits="all")
            first = context.logits(0).copy()
            context.evaluate_inputs(tokens=TOKENS[1:], states=states[1:END], start_pos=1, logits="last")
            return np.stack([first, context.logits(END - 2)]), context.head_bytes

    return logits


def only(rows, tokens):
    expected = np.full_like(rows, -np.inf)
    expected[:, tokens] = rows[:, tokens]
    return expected


@pytest.mark.parametrize("rows", [1, 64, 500, VOCABULARY])
def test_the_first_rows_are_those_of_the_whole_head(head_logits, rows):
    few, head_bytes = head_logits(head_rows=rows)
    assert np.array_equal(few, only(head_logits()[0], range(rows)))
    assert 4 * rows <= head_bytes <= 4 * rows + ALIGNMENT


@pytest.mark.parametrize("rows", [1, 64, VOCABULARY])
def test_named_rows_are_those_of_the_whole_head(head_logits, model, rows):
    few, head_bytes = head_logits(head_tokens=SHUFFLED[:rows])
    row_bytes = 256 * 4 if model.settings.path.stat().st_size > 10**7 else 256
    assert np.array_equal(few, only(head_logits()[0], SHUFFLED[:rows]))
    assert head_bytes >= rows * (4 + row_bytes)


def test_a_whole_head_takes_nothing(head_logits):
    assert head_logits()[1] == 0


def test_the_targets_own_logits_stay(target):
    before = target.logits(END - 1).copy()
    for head in ({"head_rows": 64}, {"head_tokens": SHUFFLED[:64]}):
        with target.model.open_nextn_context(target, threads=1, **head):
            target.clear()
            target.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
            assert np.array_equal(target.logits(END - 1), before)


def test_chains_draft_named_tokens_alone_with_probabilities_over_them(target):
    states = np.concatenate([np.zeros((1, 256), np.float32), target.read_nextn(0, END)])
    allowed = SHUFFLED[:64]
    with target.model.open_nextn_context(target, threads=1, head_tokens=allowed) as context:
        chain = NextnChain(context, max_tokens=8)
        chain.feed(TOKENS, 0, states[:END])
        request = {"first_pos": END, "token": target.argmax(END - 1), "state": states[END], "max_tokens": 6}
        tokens, probabilities = chain.draft(**request)
        assert set(tokens) <= set(allowed.tolist())
        context.evaluate_inputs(tokens=[request["token"]], states=states[END:], start_pos=END, logits="all")
        logits = context.logits(0)[allowed].astype(np.float64)
        assert probabilities[0] == pytest.approx(np.exp(logits.max() - np.logaddexp.reduce(logits)), rel=1e-5)


@pytest.mark.parametrize(
    ("head", "field", "words"),
    [
        ({"head_rows": VOCABULARY + 1}, "head_rows", "expected 0 to 512"),
        ({"head_rows": -1}, "head_rows", "expected 0 to 512"),
        ({"head_rows": 2, "head_tokens": [1, 2]}, "head_rows", "expected 0 beside `head_tokens`"),
        ({"head_tokens": []}, "head_tokens", "at least one token of 0..511"),
        ({"head_tokens": [3, 512]}, "head_tokens", "at least one token of 0..511"),
        ({"head_tokens": [3, -1]}, "head_tokens", "at least one token of 0..511"),
        ({"head_tokens": [3, 4, 3]}, "head_tokens", "each of them once"),
    ],
)
def test_heads_that_cannot_be_are_refused(target, head, field, words):
    with pytest.raises(ConfigError, match=words) as caught:
        target.model.open_nextn_context(target, threads=1, **head)
    assert caught.value.field == field


def raw_open(target, kind, **members):
    parameters = _raw.power_context_params(
        size=ctypes.sizeof(_raw.power_context_params),
        kind=kind,
        ctx_tokens=64,
        batch_rows=8,
        sequences=1,
        flash_attention=1,
        causal=1,
        **members,
    )
    model = target.model
    return model._library.open_handle(
        "power_context_open", model._pointer("power_context_open"), ctypes.byref(parameters)
    )


def tokens(*ids):
    return (ctypes.c_int32 * len(ids))(*ids)


@pytest.mark.parametrize(
    ("kind", "members", "words"),
    [
        (_raw.POWER_CONTEXT_TARGET, {"head_rows": 4}, "only a nextn context has a head of its own"),
        (_raw.POWER_CONTEXT_NEXTN, {"head_tokens": tokens(1)}, "`head_tokens` is set, but `head_rows` is 0"),
        (_raw.POWER_CONTEXT_NEXTN, {"head_rows": 513}, "`head_rows` is 513, expected 0..512"),
        (_raw.POWER_CONTEXT_NEXTN, {"head_rows": 2, "head_tokens": tokens(1, 512)}, "token 512 at row 1"),
        (_raw.POWER_CONTEXT_NEXTN, {"head_rows": 2, "head_tokens": tokens(-1, 3)}, "token -1 at row 0"),
        (_raw.POWER_CONTEXT_NEXTN, {"head_rows": 3, "head_tokens": tokens(5, 6, 5)}, "token 5 twice, again at row 2"),
    ],
)
def test_the_library_refuses_by_name_what_would_read_or_write_elsewhere(target, kind, members, words):
    with pytest.raises((ConfigError, NativeCallError), match=words):
        raw_open(target, kind, **members)
