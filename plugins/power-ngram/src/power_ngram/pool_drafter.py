"""Proposes from the n-gram pool of the request: prompt and output together."""

from collections.abc import Sequence

from power_core.drafter import DraftRequest, Proposal
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_ngram.config import NgramPoolConfig
from power_ngram.order import closed, not_begun, require_position
from power_ngram.pool import NgramPool


class NgramPoolDrafter:
    """Implements ``Drafter``. A proposal has no confidence, so ``p_min`` never shortens it.

    A pool holds the tokens of one request. It is not shared between requests or sequences: the same request has the
    same drafts whatever ran before it.
    """

    def __init__(self, config: NgramPoolConfig) -> None:
        self._config = config
        self._pools: dict[SeqId, NgramPool] = {}
        self._closed = False

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        if self._closed:
            raise closed("begin")
        self._pools[seq_id] = NgramPool(self._config)

    def process(self, rows: CommittedRows) -> None:
        pool = self._at("process", rows.seq_id)
        require_position("process", rows.seq_id, rows.start_pos, len(pool.tokens))
        pool.extend(rows.tokens)

    def propose(self, request: DraftRequest) -> Proposal:
        pool = self._at("propose", request.seq_id)
        require_position("propose", request.seq_id, request.n_past, len(pool.tokens))
        drafts = pool.continuation(request.anchor, request.limit_tokens)
        return Proposal(seq_id=request.seq_id, tokens=drafts if len(drafts) >= request.min_tokens else ())

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Nothing to learn: what was accepted arrives as committed rows."""

    def checkpoint(self, *, seq_id: SeqId = 0) -> int:
        return len(self._at("checkpoint", seq_id).tokens)

    def restore(self, checkpoint: int, *, seq_id: SeqId = 0) -> None:
        self._at("restore", seq_id).truncate(checkpoint)

    def close(self) -> None:
        self._closed = True
        self._pools.clear()

    def _at(self, operation: str, seq_id: SeqId) -> NgramPool:
        pool = self._pools.get(seq_id)
        if pool is None:
            raise not_begun(operation, seq_id)
        return pool
