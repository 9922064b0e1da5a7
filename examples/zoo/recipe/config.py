"""The recipe's one configuration file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import attrs

from recipe.blocks import DraftShape, Kind
from recipe.continuations import ContinuationPlan
from recipe.target import TargetShape
from recipe.training import Plan

KINDS: tuple[Kind, ...] = ("dflash", "dspark", "dflash2")


@attrs.frozen(kw_only=True)
class TextPlan:
    """How much of the text is used: files of a split (0 for all) and tokens of the vocabulary."""

    vocabulary_tokens: int
    most_files: int = 0


@attrs.frozen(kw_only=True)
class CheckPlan:
    """How much is compared: lines to tokenize, tokens of text for logits, contexts for drafts.

    Attributes:
        most_difference: Most by which a logit or a draft's score may differ where both compute the same function.
    """

    lines: int
    logit_tokens: int
    draft_contexts: int
    most_difference: float = 1e-3


@attrs.frozen(kw_only=True)
class Recipe:
    """Everything that decides the models, besides the machine's speed.

    Attributes:
        seed: Seed of every draw.
        threads: Compute threads.
        rows: Rows of a text window in the target's training.
        batch: Windows of a step of the target, texts of a step of a drafter.
        plans: Budget of each model by name: ``target``, ``mtp`` and the kinds of drafters.
    """

    seed: int
    threads: int
    rows: int
    batch: int
    text: TextPlan
    target: TargetShape
    drafter: dict[str, Any]
    continuations: ContinuationPlan
    plans: dict[str, Plan]
    check: CheckPlan

    def draft_shape(self, kind: Kind) -> DraftShape:
        """Return the sizes of the drafter of a kind."""
        return DraftShape(kind=kind, hidden=self.target.hidden, **self.drafter)


def read_recipe(path: Path) -> Recipe:
    """Read a configuration file; an unknown or a missing key is an error that names it."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    text = TextPlan(**tables.pop("text"))
    drafter = tables.pop("drafter")
    drafter["target_layers"] = tuple(drafter["target_layers"])
    return Recipe(
        text=text,
        target=TargetShape(vocabulary_tokens=text.vocabulary_tokens, **tables.pop("target")),
        drafter=drafter,
        continuations=ContinuationPlan(**tables.pop("continuations")),
        plans={name: Plan(**plan) for name, plan in tables.pop("plans").items()},
        check=CheckPlan(**tables.pop("check")),
        **tables,
    )
