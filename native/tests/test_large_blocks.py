"""Long blocks and wide convolutions: the library's graph has room for whatever the validators let through."""

import numpy as np
import pytest

from power_core.target import ContextSettings, ModelSettings
from power_core.testing import draft_weights, drafts
from power_core.tokens import TapRequest
from power_native import BlockDraft, NativeModel

pytestmark = pytest.mark.native

MASK = 511
LATTICE_WIDTH = 5


@pytest.fixture
def draft_whole_block(tmp_path, open_context):
    """Return a function that drafts one block of all its rows, in a context that computes no more rows at once."""

    def draft(n_rows, first_row, **form):
        path = drafts.build_tiny_draft(tmp_path / "draft.gguf", **form)
        lattice = form["kind"] == "dflash2"
        options = ContextSettings(ctx_tokens=2048, batch_rows=n_rows, threads=1, taps=TapRequest(nextn=lattice))
        with (
            NativeModel.open(ModelSettings(path=path)) as model,
            model.open_draft_context(
                options, target=open_context("hybrid"), causal=False, embedding_width=model.traits.n_embd_in
            ) as context,
        ):
            block = BlockDraft(context, max_rows=n_rows)
            block.feed(np.random.default_rng(3).standard_normal((12, model.traits.n_embd_in)).astype(np.float32), 0)
            asked = {"first_pos": 12, "token": 7, "fill_token": MASK, "n_rows": n_rows, "first_row": first_row}
            asked["max_tokens"] = n_rows - first_row
            if lattice:
                return block.walk_lattice(width=LATTICE_WIDTH, confidence="softmax", **asked)[0]
            return block.choose_largest(confidence="softmax", **asked)[0]

    return draft


@pytest.mark.parametrize("form", [{}, {"draft_vocabulary_tokens": 96}, {"confidence_head": False}])
@pytest.mark.parametrize("sample_from_anchor", [True, False])
def test_a_chain_runs_over_every_row_of_a_long_block(draft_whole_block, sample_from_anchor, form):
    first_row = 0 if sample_from_anchor else 1
    tokens = draft_whole_block(
        64, first_row, kind="dspark", block_size_rows=64, sample_from_anchor=sample_from_anchor, **form
    )
    assert len(tokens) == 64 - first_row
    assert len(set(tokens)) > 1


@pytest.mark.parametrize(("kind", "first_row"), [("dspark", 0), ("dflash", 1), ("dflash2", 1)])
def test_the_longest_block_that_is_let_through_is_drafted(draft_whole_block, kind, first_row):
    tokens = draft_whole_block(1024, first_row, kind=kind, block_size_rows=1024, blocks=1)
    assert len(tokens) == 1024 - first_row


@pytest.mark.parametrize(("kernel", "blocks"), [(16, 6), (64, 3)])
def test_wide_convolutions_run_in_every_block(draft_whole_block, monkeypatch, kernel, blocks):
    for module in (draft_weights, drafts):
        monkeypatch.setattr(module, "CONV_KERNEL", kernel)
    tokens = draft_whole_block(64, 1, kind="dflash2", block_size_rows=64, blocks=blocks)
    assert len(tokens) == 63
