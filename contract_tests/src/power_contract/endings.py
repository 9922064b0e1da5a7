"""Drafts that put the end of a request at a chosen place of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import attrs

from power_core.drafter import DraftRequest
from power_core.tokens import TokenId

EndForm: TypeAlias = Literal["draft", "correction", "bonus"]


@attrs.frozen(kw_only=True)
class Ending:
    """Where in a block the token that ends a request stands, and who brings it.

    Attributes:
        tokens: What is emitted before it.
        after: The token that ends, then what may follow it.
        place: Right drafts of the block before it.
        form: ``draft``: it is drafted, and so is what follows; ``correction``: a wrong draft stands in its place;
            ``bonus``: the block has no draft there.
    """

    tokens: tuple[TokenId, ...]
    after: tuple[TokenId, ...]
    place: int
    form: EndForm

    def drafts(self, request: DraftRequest, prompt_tokens: int) -> Sequence[TokenId]:
        """Return right drafts up to the block of the end, and that block's; none after it."""
        at = request.n_past - prompt_tokens + 1
        before = len(self.tokens) - self.place - at
        if before > 0:
            return self.tokens[at : at + min(request.limit_tokens, before - 1)]
        last = {"draft": self.after, "correction": (self.after[0] + 1,), "bonus": ()}[self.form]
        return (*self.tokens[at:], *last)[: request.limit_tokens]

    def __str__(self) -> str:
        return f"as a {self.form} after {self.place} drafts"


class EndingScript:
    """A script of drafts (``scripted`` of ``open_subject_session``) whose ending changes from request to request."""

    def __init__(self, prompt: Sequence[TokenId]) -> None:
        self.ending: Ending | None = None
        self._prompt_tokens = len(prompt)

    def __call__(self, request: DraftRequest) -> Sequence[TokenId] | None:
        return None if self.ending is None else self.ending.drafts(request, self._prompt_tokens)


def endings(tokens: Sequence[TokenId], after: Sequence[TokenId], draft_max: int) -> Iterator[Ending]:
    """Yield every place of a block of at most ``draft_max`` drafts at which the end can stand."""
    for place in range(draft_max + 1):
        for form in get_args(EndForm):
            if place < draft_max or form == "bonus":
                yield Ending(tokens=tuple(tokens), after=tuple(after), place=place, form=form)
