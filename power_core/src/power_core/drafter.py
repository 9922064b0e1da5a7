"""The protocol a drafter implements, and the two values it exchanges with the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.errors import PluginContractError, PowerError, TransactionAborted
from power_core.tokens import CommittedRows, SeqId, TokenId

DrafterCheckpoint: TypeAlias = Any
Result = TypeVar("Result")


@attrs.frozen(kw_only=True)
class DraftRequest:
    """Ask for at most ``limit_tokens`` drafts that follow ``anchor``.

    ``anchor`` was emitted but not evaluated yet; it stands at position ``n_past`` (= committed tokens).
    ``limit_tokens`` is at least 1. ``min_tokens`` drafts or none: a shorter proposal is dropped by the loop.
    ``p_min`` in [0, 1]: stop before the first draft whose probability or confidence is below it.
    """

    seq_id: SeqId = 0
    n_past: int
    anchor: TokenId
    limit_tokens: int
    min_tokens: int = 0
    p_min: float = 0.0


@attrs.frozen(kw_only=True, eq=False)
class Proposal:
    """Draft tokens for one sequence.

    Shapes: ``tokens`` n <= ``DraftRequest.limit_tokens``; ``confidence`` float32[n] in [0, 1], or None.
    """

    seq_id: SeqId = 0
    tokens: Sequence[TokenId] = ()
    confidence: NDArray[np.float32] | None = None


@runtime_checkable
class Drafter(Protocol):
    """Proposes tokens; the target decides. Called by one thread at a time.

    In this order per sequence: ``begin(prompt)``, then ``process(rows)`` for every prompt chunk, then per round
    ``propose(request)`` and, after verification, ``process(committed rows)`` and ``accept(n)``. ``propose`` may be
    skipped in a round, and the rows of rounds that skipped it may come later and together, but before the next
    ``propose``; ``accept`` is called only after a ``propose`` that returned drafts. ``checkpoint`` is taken
    before a round, and again behind rows that came later and together; ``restore`` puts the drafter back exactly there,
    also after ``propose`` or ``process`` raised half-way.
    """

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        """Forget the sequence and start a new one; ``process`` of the prompt's chunks follows."""
        ...

    def process(self, rows: CommittedRows) -> None:
        """Take in committed rows. Every committed row arrives exactly once, in order."""
        ...

    def propose(self, request: DraftRequest) -> Proposal:
        """Return at most ``request.limit_tokens`` drafts; leaves no trace that ``process`` would build upon."""
        ...

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Learn how many of the last proposal's tokens were accepted (0..n)."""
        ...

    def checkpoint(self, *, seq_id: SeqId = 0) -> DrafterCheckpoint:
        """Return a value that ``restore`` takes; cheap, taken every round."""
        ...

    def restore(self, checkpoint: DrafterCheckpoint, *, seq_id: SeqId = 0) -> None:
        """Return to the checkpoint's state exactly."""
        ...

    def close(self) -> None:
        """Free everything; safe to call twice."""
        ...


def call_drafter(operation: str, call: Callable[[], Result]) -> Result:
    """Return ``call()``; an error that is no ``PowerError`` becomes ``TransactionAborted`` with its cause chained."""
    try:
        return call()
    except PowerError:
        raise
    except Exception as error:
        raise drafter_failed(operation, error) from error


def drafter_failed(operation: str, error: Exception) -> TransactionAborted:
    """Return what to raise from an error of a drafter that is no ``PowerError``."""
    return TransactionAborted(
        f"the drafter failed in `{operation}`: {error!r}",
        hint="nothing of the round was kept; report it to the plugin's author, or run with `--spec off`",
    )


def checked_proposal(proposal: object, request: DraftRequest, n_vocab: int) -> Proposal:
    """Return the drafter's answer with plain token ids, or blame the plugin: nothing else reaches the target.

    Raises:
        PluginContractError: no ``Proposal``, another sequence's, too many tokens, or something that is no token id.
    """
    if not isinstance(proposal, Proposal):
        raise _contract_error(f"the drafter answered with {type(proposal).__name__}, expected a Proposal")
    if proposal.seq_id != request.seq_id:
        raise _contract_error(f"the drafter answered for sequence {proposal.seq_id!r}, {request.seq_id} was asked for")
    tokens = proposal.tokens
    if type(tokens) is not list:
        tokens = call_drafter("propose", lambda: list(proposal.tokens))
    if len(tokens) > request.limit_tokens:
        raise _contract_error(
            f"the drafter proposed {len(tokens)} tokens, at most {request.limit_tokens} were asked for"
        )
    ids = [token if type(token) is int else _as_id(token) for token in tokens]
    if ids and not (min(ids) >= 0 and max(ids) < n_vocab):
        wrong = next(token for token in ids if not 0 <= token < n_vocab)
        raise _contract_error(f"the drafter proposed token {wrong!r}, the vocabulary has ids 0..{n_vocab - 1}")
    return Proposal(seq_id=proposal.seq_id, tokens=ids, confidence=proposal.confidence)


def _as_id(token: object) -> TokenId:
    if not isinstance(token, Integral) or isinstance(token, bool):
        raise _contract_error(f"the drafter proposed {token!r}, expected a token id")
    return int(token)


def _contract_error(message: str) -> PluginContractError:
    return PluginContractError(
        message, hook="propose", hint="report it to the plugin's author, or run with `--spec off`"
    )
