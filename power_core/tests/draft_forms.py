"""Every valid form of a block draft, as arguments of ``build_tiny_draft``, by a readable name."""

from __future__ import annotations

from typing import Any

KINDS = ("dflash", "dflash2", "dspark")
BLOCK_SIZE_ROWS = 8

_OF_ALL: dict[str, dict[str, Any]] = {
    "plain": {},
    "own-head": {"own_head": True},
    "own-embeddings": {"own_embeddings": True},
    "own-both": {"own_embeddings": True, "own_head": True},
    "draft-vocabulary": {"draft_vocabulary_tokens": 100},
    "own-draft-vocabulary": {"own_embeddings": True, "draft_vocabulary_tokens": 37},
    "window": {"window_tokens": 16, "blocks": 3},
    "window-below-block": {"window_tokens": 3},
    "without-sections": {"sections": False},
    "causal": {"causal": True},
    "not-causal": {"causal": False},
    "layers-in-another-order": {"target_layers": (3, 0)},
    "one-block": {"blocks": 1},
}
_OF_DSPARK: dict[str, dict[str, Any]] = {
    "bonus-anchor": {"sample_from_anchor": False},
    "no-confidence": {"confidence_head": False},
    "bonus-anchor-no-confidence": {"sample_from_anchor": False, "confidence_head": False},
    "bonus-anchor-draft-vocabulary": {"sample_from_anchor": False, "draft_vocabulary_tokens": 100},
}
FORMS = {f"{kind}-{name}": {"kind": kind, **form} for kind in KINDS for name, form in _OF_ALL.items()} | {
    f"dspark-{name}": {"kind": "dspark", **form} for name, form in _OF_DSPARK.items()
}


def most_drafts(form: dict[str, Any]) -> int:
    """What the format allows: a block's rows, less the anchor's when it predicts nothing."""
    anchor_predicts = form["kind"] == "dspark" and form.get("sample_from_anchor", True)
    return BLOCK_SIZE_ROWS - (0 if anchor_predicts else 1)
