"""Force acceptance lengths on a real session: a drafter's proposals are replaced by ones that are right for n tokens.

The inner drafter's own ``propose`` runs first, so its state is as dirty as in real use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import attrs

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.validation import ArtifactValidator
from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal
from power_core.plugins.manager import PowerPluginManager
from power_core.plugins.types import BackendSpec, DrafterContext, StrategySpec, TargetNeeds
from power_core.strategies import ResolvedStrategy
from power_core.tokens import CommittedRows, SeqId, TokenId

AcceptanceLengths = Callable[[int], int]


class ForcedDrafter:
    """Proposes the true continuation for ``lengths(limit)`` tokens and wrong tokens after them.

    Args:
        truth: Prompt to plain continuation: what the target emits after it.
        lengths: How many of ``limit`` drafts shall be right.
        n_vocab: Vocabulary size.
        inner: A real drafter to run underneath, or None.
    """

    def __init__(
        self,
        truth: Mapping[tuple[TokenId, ...], Sequence[TokenId]],
        lengths: AcceptanceLengths,
        n_vocab: int,
        inner: Drafter | None = None,
    ) -> None:
        self._truth = truth
        self._lengths = lengths
        self._n_vocab = n_vocab
        self._inner = inner
        self._prompt_tokens = 0
        self._continuation: Sequence[TokenId] = ()

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        """Look up the continuation of the prompt."""
        self._prompt_tokens = len(prompt)
        self._continuation = self._truth[tuple(prompt)]
        if self._inner is not None:
            self._inner.begin(prompt, seq_id=seq_id)

    def process(self, rows: CommittedRows) -> None:
        """Pass the rows on."""
        if self._inner is not None:
            self._inner.process(rows)

    def propose(self, request: DraftRequest) -> Proposal:
        """Let the inner drafter propose, then replace its tokens."""
        if self._inner is not None:
            self._inner.propose(request)
        at = request.n_past - self._prompt_tokens + 1
        right = self._lengths(request.limit_tokens)
        following = self._continuation[at : at + request.limit_tokens]
        tokens = [token if index < right else (token + 1) % self._n_vocab for index, token in enumerate(following)]
        return Proposal(seq_id=request.seq_id, tokens=tokens)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Pass the outcome on."""
        if self._inner is not None:
            self._inner.accept(accepted_tokens, seq_id=seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> DrafterCheckpoint:
        """The inner drafter's checkpoint."""
        return None if self._inner is None else self._inner.checkpoint(seq_id=seq_id)

    def restore(self, checkpoint: DrafterCheckpoint, *, seq_id: SeqId = 0) -> None:
        """Restore the inner drafter."""
        if self._inner is not None:
            self._inner.restore(checkpoint, seq_id=seq_id)

    def close(self) -> None:
        """Close the inner drafter."""
        if self._inner is not None:
            self._inner.close()


class ForcedPlugins:
    """The installed plugins, with every drafter wrapped in a ``ForcedDrafter``; hand it to ``open_session``.

    With ``strategy`` "scripted" no real drafter runs underneath.
    """

    def __init__(
        self,
        plugins: PowerPluginManager,
        truth: Mapping[tuple[TokenId, ...], Sequence[TokenId]],
        lengths: AcceptanceLengths,
    ) -> None:
        self._plugins = plugins
        self._truth = truth
        self._lengths = lengths

    def negotiate(self, requested: str, target: GgufHeader, draft: GgufHeader | None) -> ResolvedStrategy:
        """Resolve as usual, then wrap the drafter's factory."""
        if requested == "scripted":
            spec = StrategySpec(
                name="scripted",
                refuse=lambda target, draft: None,
                needs=lambda target, draft: TargetNeeds(),
                create_drafter=lambda context: self._wrap(context, None),
            )
            return ResolvedStrategy(name="scripted", spec=spec, refusals={})
        resolved = self._plugins.negotiate(requested, target, draft)
        if resolved.spec is None:
            return resolved
        create = resolved.spec.create_drafter
        spec = attrs.evolve(resolved.spec, create_drafter=lambda context: self._wrap(context, create(context)))
        return attrs.evolve(resolved, spec=spec)

    def draft_kind(self, requested: str) -> str | None:
        """As installed; "scripted" reads no draft."""
        return None if requested == "scripted" else self._plugins.draft_kind(requested)

    def validators(self) -> list[ArtifactValidator]:
        """The installed validators."""
        return self._plugins.validators()

    def backend(self) -> BackendSpec:
        """The installed backend."""
        return self._plugins.backend()

    def as_manager(self) -> PowerPluginManager:
        """This object, typed as what ``open_session`` takes."""
        return cast("PowerPluginManager", cast("object", self))

    def _wrap(self, context: DrafterContext, inner: Drafter | None) -> Drafter:
        return ForcedDrafter(self._truth, self._lengths, context.target_model.info.n_vocab, inner)
