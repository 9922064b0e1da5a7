"""The tiny drafts in the library: every form drafts varied tokens with clear margins, quantised too."""

import gguf
import numpy as np
import pytest
from block_library import open_pair
from draft_forms import FORMS, KINDS, most_drafts

from power_core.testing.draft_weights import ORDINARY_TOKENS
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.models import build_tiny_target
from power_native.quantize import quantize

pytestmark = pytest.mark.native

LENGTHS = (1, 17, 63, 150)


def blocks_of(draft, target, n_drafts, lengths=LENGTHS):
    """Blocks after random tokens of several lengths."""
    with open_pair(draft, target) as pair:
        for length in lengths:
            *tokens, anchor = np.random.default_rng(length).integers(0, 500, length + 1).tolist()
            pair.commit(pair.features(tokens))
            yield pair.propose(anchor, n_drafts)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_drafts_varied_tokens(form, model_paths, tmp_path):
    count = most_drafts(form)
    draft = build_tiny_draft(tmp_path / "d.gguf", **form)
    blocks = list(blocks_of(draft, model_paths["hybrid"], count))
    assert all(len(block.tokens) == count for block in blocks)
    assert len({tuple(block.tokens) for block in blocks}) == len(blocks)
    tokens = [token for block in blocks for token in block.tokens]
    assert len(set(tokens)) >= len(tokens) / 4
    assert max(tokens) < ORDINARY_TOKENS


@pytest.mark.parametrize("target", ["hybrid", "attention"])
@pytest.mark.parametrize("kind", KINDS)
def test_margins_are_clear_and_confidences_spread(kind, target, model_paths, tmp_path):
    draft = build_tiny_draft(tmp_path / "d.gguf", kind=kind, target=target)
    blocks = list(blocks_of(draft, model_paths[target], 7))
    best = np.sort(np.concatenate([block.logits for block in blocks]), axis=1)[:, -2:]
    margins = best[:, 1] - best[:, 0]
    assert margins.min() > 1e-3
    assert 0.5 < np.median(margins) < 2.0
    confidences = np.concatenate([block.confidences for block in blocks])
    assert confidences.max() > 0.95
    assert confidences.min() < (0.6 if kind == "dflash2" else 0.25)  # the best of five candidates has a fifth at least


@pytest.mark.parametrize("dtype", ["F16", "Q8_0"])
@pytest.mark.parametrize("kind", KINDS)
def test_drafts_built_in_smaller_types_draft(kind, dtype, tmp_path):
    target = build_tiny_target(tmp_path / "t.gguf", kind="hybrid", dtype=dtype)
    draft = build_tiny_draft(tmp_path / "d.gguf", kind=kind, dtype=dtype, draft_vocabulary_tokens=100, head_dtype="F16")
    (block,) = blocks_of(draft, target, 7, lengths=(63,))
    assert len(set(block.tokens)) > 3


# Matrices of 256 columns take the type asked for; narrower tables take the nearest type of 32.
QUANTISED = {
    ("Q8_0", False): {"Q8_0"},
    ("Q8_0", True): {"Q8_0"},
    ("Q4_K_M", False): {"Q4_K", "Q6_K", "Q5_0"},
    ("Q4_K_M", True): {"Q4_K", "Q5_0"},
}
NARROW = ("markov_w1.weight", "markov_w2.weight", "selector_predecessor.weight", "selector_successor.weight")


@pytest.mark.parametrize("pure", [False, True], ids=["mixed", "pure"])
@pytest.mark.parametrize("type_name", ["Q8_0", "Q4_K_M"])
@pytest.mark.parametrize("kind", KINDS)
def test_quantised_drafts_load_and_draft(kind, type_name, pure, model_paths, tmp_path):
    source = build_tiny_draft(tmp_path / "d.gguf", kind=kind, own_embeddings=True, draft_vocabulary_tokens=100)
    quantised = tmp_path / "q.gguf"
    quantize(source, quantised, type_name, threads=1, pure=pure)
    types = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(quantised).tensors}
    assert types.pop("d2t") == "I64"
    narrow = {types[name] for name in NARROW if name in types}
    assert narrow <= ({"Q8_0"} if type_name == "Q8_0" else {"Q5_0"})
    matrices = {kind for kind in types.values() if kind != "F32"}
    assert matrices == QUANTISED[type_name, pure] - (set() if narrow else {"Q5_0"})
    kept = {name for name, kind in types.items() if kind == "F32" and "norm" not in name}
    assert all(name.endswith("conv_base") or name.startswith("conf_proj") for name in kept)
    (block,) = blocks_of(quantised, model_paths["hybrid"], 7, lengths=(63,))
    assert len(set(block.tokens)) > 2
