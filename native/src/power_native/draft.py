"""Drafting primitives that any plugin may use: a chain of prediction-head rows, fed by committed rows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from power_core.errors import ConfigError
from power_core.target import Kernels
from power_core.tokens import SeqId, TokenId
from power_native import _raw
from power_native.context import NativeContext

_FLOATS = ctypes.POINTER(ctypes.c_float)


class NextnChain:
    """A multi-token-prediction head that drafts a chain of tokens.

    ``feed`` takes committed rows into the head's memory; ``draft`` proposes from there and leaves the memory as it was.
    The context (lengths, truncation, checkpoints) stays the caller's; buffers are allocated once.

    Args:
        context: From ``NativeModel.open_nextn_context``.
        max_tokens: Most tokens that one ``draft`` may be asked for.
    """

    def __init__(self, context: NativeContext, *, max_tokens: int) -> None:
        if max_tokens < 1:
            raise ConfigError(
                f"`max_tokens` is {max_tokens!r}, expected 1 or more", field="max_tokens", value=max_tokens
            )
        self.context = context
        self._max_tokens = max_tokens
        self._state = np.zeros(context.model.info.n_embd, np.float32)
        self._tokens = (ctypes.c_int32 * max_tokens)()
        self._probabilities = np.zeros(max_tokens, np.float32)
        self._chain = _raw.power_chain(
            size=ctypes.sizeof(_raw.power_chain),
            state=self._state.ctypes.data_as(_FLOATS),
            out_tokens=self._tokens,
        )
        self._probabilities_pointer = self._probabilities.ctypes.data_as(_FLOATS)
        self._chain_ref = ctypes.byref(self._chain)

    def feed(
        self,
        tokens: Sequence[TokenId],
        start_pos: int,
        states: NDArray[np.float32],
        *,
        seq_id: SeqId = 0,
        kernels: Kernels = "decode",
    ) -> None:
        """Take in rows: ``tokens[i]`` at ``start_pos + i`` with state row ``states[i]``.

        Shapes: ``states`` float32[len(tokens), n_embd]; row i is the target's state *before* ``tokens[i]``.

        Raises:
            ConfigError: shapes that do not fit, or no rows; otherwise as ``NativeContext.evaluate``.
        """
        self.context.evaluate_inputs(
            tokens=tokens, states=states, start_pos=start_pos, seq_id=seq_id, logits="none", kernels=kernels
        )

    def draft(
        self,
        *,
        first_pos: int,
        token: TokenId,
        state: NDArray[np.float32],
        max_tokens: int,
        p_min: float = 0.0,
        heads: int = 1,
        seq_id: SeqId = 0,
        probabilities: bool = True,
    ) -> tuple[list[TokenId], NDArray[np.float32] | None]:
        """Propose up to ``max_tokens`` tokens that follow ``token`` at ``first_pos``; the memory ends where it began.

        Args:
            first_pos: Position of ``token``, the end of what was fed.
            token: The anchor: emitted by the target, not fed yet.
            state: float32[n_embd], the target's state row before ``token``.
            max_tokens: At most this many, up to the chain's own ``max_tokens``.
            p_min: Stop before the first token whose probability is below it.
            heads: With more than 1, step i runs prediction head i.
            seq_id: The sequence.
            probabilities: False saves a softmax over the vocabulary per token when ``p_min`` is 0.

        Returns:
            The tokens, and their probabilities float32[n] as an owned copy, None when they were not asked for.
        """
        if not 1 <= max_tokens <= self._max_tokens:
            self._refuse_count(max_tokens)
        self._state[:] = state
        chain = self._chain
        chain.seq_id, chain.first_pos, chain.token = seq_id, first_pos, token
        chain.max_tokens, chain.heads, chain.p_min = max_tokens, heads, p_min
        chain.out_probabilities = self._probabilities_pointer if probabilities else None
        self.context.choose_on_device(not probabilities and p_min == 0.0)
        self.context._call_decoding("power_draft_chain", self._chain_ref)
        count = chain.out_count
        return self._tokens[:count], self._probabilities[:count].copy() if probabilities else None

    def _refuse_count(self, max_tokens: int) -> NoReturn:
        raise ConfigError(
            f"`max_tokens` is {max_tokens!r}, expected 1..{self._max_tokens}",
            field="max_tokens",
            value=max_tokens,
            allowed=f"1..{self._max_tokens}",
        )
