"""Contexts of a drafter's own model: a second model beside the target, block attention, embedding rows."""

import numpy as np
import pytest

from power_core.errors import ConfigError, NativeCallError
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(12)]
SETTINGS = ContextSettings(ctx_tokens=64, batch_rows=32, threads=1)


def test_draft_context_decodes_as_its_model_does(models, open_context):
    plain = open_context("attention")
    with models["attention"].open_draft_context(SETTINGS) as draft:
        for context in (plain, draft):
            context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
        assert np.array_equal(draft.logits(11), plain.logits(11))


def test_without_causal_attention_early_rows_see_late_ones(models):
    rows = []
    for causal in (True, False):
        with models["attention"].open_draft_context(SETTINGS, causal=causal) as draft:
            draft.evaluate_inputs(tokens=TOKENS, start_pos=0, logits="all")
            first = draft.logits(0).copy()
            draft.clear()
            draft.evaluate_inputs(tokens=[*TOKENS[:-1], 3], start_pos=0, logits="all")
            rows.append(np.array_equal(draft.logits(0), first))
    assert rows == [True, False]


def test_draft_context_is_closed_before_its_target(models, open_context):
    target = open_context("hybrid")
    draft = models["attention"].open_draft_context(SETTINGS, target=target)
    target.close()
    assert draft.closed


def test_embeddings_are_refused_by_name_and_tokens_work_afterwards(models):
    with models["attention"].open_draft_context(SETTINGS, embedding_width=256) as draft:
        with pytest.raises(NativeCallError, match="qwen3"):
            draft.evaluate_inputs(embeddings=np.zeros((2, 256), np.float32), start_pos=0)
        draft.evaluate_inputs(tokens=TOKENS, start_pos=0, logits="last")
        assert draft.length_tokens() == len(TOKENS)
        assert np.isfinite(draft.logits(11)).all()


@pytest.mark.parametrize("width", [-1, 1, 255, 257, 768])
def test_an_embedding_width_that_is_not_the_models_is_refused(models, width):
    with pytest.raises(ConfigError, match="rows of 256 elements") as caught:
        models["attention"].open_draft_context(SETTINGS, embedding_width=width)
    assert (caught.value.field, caught.value.value) == ("embedding_width", width)


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"tokens": []},
        {"embeddings": np.zeros((2, 5), np.float32)},
        {"tokens": [1, 2, 3], "embeddings": np.zeros((2, 256), np.float32)},
    ],
    ids=["nothing", "no rows", "wrong width", "different counts"],
)
def test_inputs_that_do_not_fit_are_refused_in_python(models, inputs):
    with models["attention"].open_draft_context(SETTINGS, embedding_width=256) as draft:
        with pytest.raises(ConfigError):
            draft.evaluate_inputs(start_pos=0, **inputs)
        assert draft.length_tokens() == 0
