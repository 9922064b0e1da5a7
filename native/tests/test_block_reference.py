"""The library's block drafts against a NumPy reference of their graphs, on random weights, in every form of the format.

The sharp comparison runs without flash attention, whose sums are float16: then what is left is the rounding of single
values to float16 in either program. The exact arithmetic that sessions use has them, and is held to wider bounds.
"""

from functools import cache
from itertools import chain

import numpy as np
import pytest
from block_library import open_pair
from block_reference import BlockReference
from block_reference_heads import pair_scores
from draft_forms import FORMS, KINDS, most_drafts

from power_core.artifacts.gguf import scan_header
from power_core.testing import drafts
from power_core.testing.drafts import build_tiny_draft

pytestmark = pytest.mark.native

TARGETS = ("hybrid", "attention", "sliding-window")
TIE = 20.0
ROUNDED = ("dflash-own-both", "dflash2-own-head", "dflash2-own-both", "dflash2-own-draft-vocabulary", "dspark-window")
"""Forms with one row 1.07 to 1.4 thousandths away, on one processor or another: single values round differently."""
SHARP = {"arithmetic": "fast", "flash_attention": "off"}


@cache
def committed(n_tokens):
    """Token ids of a length, and the anchor after them."""
    tokens = np.random.default_rng(n_tokens).integers(0, 500, n_tokens + 1).tolist()
    return tokens[:-1], tokens[-1]


def row_distances(found, expected):
    """Per row, the norm of the difference relative to the norm, over the finite logits."""
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(found), finite)
    found, expected = (np.where(finite, logits, 0.0) for logits in (found, expected))
    return np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)


def check_block(found, expected, *, within, strict):
    """Check a block's logits, tokens and confidences; return how many confidences could be compared.

    Strict: every row is within the bound, every token the same. Else single values that round to another float16 may
    push one row ten times as far as the others, and a token is the best one of the reference or scores so near the best
    that this rounding decides. The same holds, strict or not, for the candidates among which a confidence of DFlash2 is
    a share.
    """
    distances = row_distances(found.logits, expected.logits)
    assert np.median(distances) < within
    assert distances.max() < (within if strict else 10 * within)
    tie = TIE * within * np.std(expected.logits[np.isfinite(expected.logits)])
    assert np.all(expected.shortfalls <= (0.0 if strict else tie)), (found.tokens, expected.tokens)
    if expected.confidences is None:
        assert found.confidences is None
        return len(found.tokens)
    sure = expected.cut_margins > tie if expected.cut_margins.size else np.full(len(found.tokens), True)
    assert found.confidences[sure] == pytest.approx(expected.confidences[sure], abs=TIE * within)
    return sure.sum()


def check(draft, target, counts, *, within=1e-3, strict=False, **arithmetic):
    """Compare blocks of each count after each length, ``{length: counts}``."""
    reference = BlockReference(draft, target)
    compared = 0
    with open_pair(draft, target, **arithmetic) as pair:
        for n_tokens, drafts_of_blocks in counts.items():
            tokens, anchor = committed(n_tokens)
            features = pair.features(tokens)
            pair.commit(features)
            for count in drafts_of_blocks:
                found = pair.propose(anchor, count)
                assert len(found.tokens) == count
                expected = reference.propose(features, anchor, count, path=found.tokens)
                compared += check_block(found, expected, within=within, strict=strict)
    assert compared > 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_drafts_after_few_and_many_tokens(kind, target, model_paths, tmp_path):
    draft = build_tiny_draft(tmp_path / "d.gguf", kind=kind, target=target)
    most = most_drafts({"kind": kind})
    strict = target != "sliding-window"
    check(draft, model_paths[target], {1: (1, most), 63: range(1, most + 1), 300: (2, most)}, strict=strict, **SHARP)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_arithmetic_drafts_the_same(kind, target, model_paths, tmp_path):
    draft = build_tiny_draft(tmp_path / "d.gguf", kind=kind, target=target)
    most = most_drafts({"kind": kind})
    check(draft, model_paths[target], {1: (most,), 63: (1, 4, most), 300: (most,)}, within=3e-3)


@pytest.mark.parametrize("name", FORMS)
def test_every_form(name, model_paths, tmp_path):
    form = FORMS[name]
    draft = build_tiny_draft(tmp_path / "d.gguf", seed=2, **form)
    most = most_drafts(form)
    check(draft, model_paths["hybrid"], {63: (1, most), 130: (most,)}, strict=name not in ROUNDED, **SHARP)


@pytest.mark.parametrize("kind", KINDS)
def test_sinks_and_another_activation(kind, model_paths, tmp_path, monkeypatch):
    def with_sinks(plan):
        return chain(tensors(plan), ((f"blk.{block}.attn_sinks.weight", (4,)) for block in range(plan.blocks)))

    def with_activation(writer, plan, form):
        add_keys(writer, plan, form)
        writer.add_string("dflash.hidden_activation", "gelu")

    def weights(name, shape, random):
        return np.float32([20, 0, 12, -5]) if name.endswith("attn_sinks.weight") else draw(name, shape, random)

    tensors, add_keys, draw = drafts.draft_tensors, drafts._add_keys, drafts.draft_weights
    monkeypatch.setattr(drafts, "draft_tensors", with_sinks)
    monkeypatch.setattr(drafts, "_add_keys", with_activation)
    monkeypatch.setattr(drafts, "draft_weights", weights)
    draft = build_tiny_draft(tmp_path / "d.gguf", kind=kind)
    check(draft, model_paths["hybrid"], {63: (7,)}, within=2e-3, **SHARP)


def test_lattice_holds_the_best_tokens_and_the_score_of_every_pair(model_paths, tmp_path):
    draft = build_tiny_draft(tmp_path / "d.gguf", kind="dflash2")
    reference = BlockReference(draft, model_paths["hybrid"])
    width = reference.file.size("selector_top_k")
    tokens, anchor = committed(63)
    with open_pair(draft, model_paths["hybrid"], **SHARP) as pair:
        features = pair.features(tokens)
        pair.commit(features)
        found, expected = pair.propose(anchor, 7), reference.propose(features, anchor, 7)
    before = [anchor] * width
    for state, row, logits in zip(found.states[1:], expected.hidden[1:], expected.logits[1:], strict=True):
        candidates = state[:width].astype(int)
        assert set(candidates) == set(np.argsort(-logits)[:width])
        table = state[width : width + width**2].reshape(width, width)
        scores = pair_scores(reference.file, row, logits, before)[:, candidates]
        assert table == pytest.approx(scores, abs=0.02)
        assert not state[width + width**2 :].any()
        before = candidates


def test_sizes_of_dflash2_all_differ(tmp_path):
    header = scan_header(build_tiny_draft(tmp_path / "d.gguf", kind="dflash2"))
    names = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k", "block_size", "embedding_length")
    sizes = [header.get(f"dflash.{name}") for name in names]
    assert len(set(sizes)) == len(names)


@pytest.mark.parametrize(
    ("name", "shape", "axes"),
    [
        ("blk.0.attn_conv_base", (2, 3, 256), (0, 1)),
        ("blk.1.ffn_conv_base", (2, 3, 8, 32), (2, 3)),
        ("blk.0.attn_conv_proj.weight", (2, 3, 8, 256), (0, 1)),
        ("blk.1.ffn_conv_proj.weight", (2, 3, 8, 256), (1, 2)),
        ("selector_hidden.weight", (96, 256), (0, 1)),
    ],
)
def test_a_transposed_tensor_would_show(name, shape, axes, model_paths, tmp_path, monkeypatch):
    reference = BlockReference(build_tiny_draft(tmp_path / "d.gguf", kind="dflash2"), model_paths["hybrid"])
    features = np.random.default_rng(0).standard_normal((9, 768))
    right = reference.propose(features, 5, 7)
    values = reference.file.weight(name)
    monkeypatch.setitem(reference.file.loaded, name, np.swapaxes(values.reshape(shape), *axes).reshape(values.shape))
    wrong = reference.propose(features, 5, 7)
    moved = row_distances(wrong.logits, right.logits).max() > 0.02
    assert moved or not np.allclose(wrong.confidences, right.confidences, atol=0.02)
