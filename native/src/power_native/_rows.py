"""The rows of one evaluation, in arrays that are allocated once and filled by slices."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from power_core.errors import ConfigError, ContextFullError
from power_core.tokens import LogitsRows, SeqId, SequenceRows
from power_native import _raw

FloatRows: TypeAlias = NDArray[np.float32]

_FLOATS = ctypes.POINTER(ctypes.c_float)
_INTS = ctypes.POINTER(ctypes.c_int32)


class RowBuffer:
    """Tokens, positions, sequence ids and logits marks of up to ``capacity_rows`` rows, as the library reads them."""

    def __init__(self, *, capacity_rows: int, ctx_tokens: int) -> None:
        self._capacity_rows = capacity_rows
        self._ctx_tokens = ctx_tokens
        self._tokens = np.zeros(capacity_rows, np.int32)
        self._positions = np.zeros(capacity_rows, np.int32)
        self._seq_ids = np.zeros(capacity_rows, np.int32)
        self._wants = np.zeros(capacity_rows, np.int8)
        self._marks: tuple[int, int, SeqId, LogitsRows] | None = None  # what the marks say, of one run of rows
        self._all_positions = np.arange(ctx_tokens, dtype=np.int32)
        self._token_pointer = self._tokens.ctypes.data_as(_INTS)
        self.raw = _raw.power_rows(
            size=ctypes.sizeof(_raw.power_rows),
            tokens=self._token_pointer,
            positions=self._positions.ctypes.data_as(_INTS),
            seq_ids=self._seq_ids.ctypes.data_as(_INTS),
            wants_logits=self._wants.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        self.reference = ctypes.byref(self.raw)

    def fill(self, sequences: Sequence[SequenceRows]) -> int:
        """Describe token rows; returns their number.

        Raises:
            ConfigError: no rows, more rows than an evaluation takes, or a negative position.
            ContextFullError: a row would stand at or beyond ``ctx_tokens``.
        """
        end = 0
        for rows in sequences:
            start, end = end, end + len(rows.tokens)
            self._place(start, end, rows.start_pos, rows.seq_id, rows.logits)
            self._put_tokens(start, end, rows.tokens)
        if end == 0:
            raise ConfigError("an evaluation needs at least one row", field="sequences", value=sequences)
        self.raw.n_rows = end
        return end

    def fill_one(
        self,
        tokens: Sequence[int] | None,
        embeddings: FloatRows | None,
        *,
        start_pos: int,
        seq_id: int,
        logits: LogitsRows,
    ) -> int:
        """Describe rows of one sequence that are tokens, embedding rows, or both; returns their number.

        Raises:
            ConfigError: neither is given, or as ``fill``.
        """
        given = tokens if tokens is not None else embeddings
        if given is None or len(given) == 0:
            raise ConfigError("an evaluation needs at least one row", field="tokens", value=tokens)
        n_rows = len(given)
        self._place(0, n_rows, start_pos, seq_id, logits)
        if tokens is not None:
            self._put_tokens(0, n_rows, tokens)
        else:
            self.raw.tokens = None
        self.raw.n_rows = n_rows
        return n_rows

    def use_tokens_only(self) -> None:
        """Point the library at the tokens again and at no float rows, after an evaluation of ``fill_one``'s rows."""
        raw = self.raw
        raw.embeddings = raw.states = None
        raw.tokens = self._token_pointer

    def _put_tokens(self, start: int, end: int, tokens: Sequence[int]) -> None:
        try:
            self._tokens[start:end] = tokens
        except (OverflowError, TypeError, ValueError) as error:
            raise ConfigError(
                f"tokens are {tokens!r}, expected token ids: {error}", field="tokens", value=tokens
            ) from error

    def _place(self, start: int, end: int, start_pos: int, seq_id: int, logits: LogitsRows) -> None:
        end_pos = start_pos + end - start
        if end > self._capacity_rows or start_pos < 0 or end_pos > self._ctx_tokens:
            self._refuse(end, start_pos, end_pos)
        self._positions[start:end] = self._all_positions[start_pos:end_pos]
        marks = (start, end, seq_id, logits)
        if marks != self._marks:
            self._marks = marks if start == 0 else None
            self._seq_ids[start:end] = seq_id
            self._wants[start:end] = logits == "all"
            if logits == "last":
                self._wants[end - 1] = 1

    def _refuse(self, n_rows: int, start_pos: int, end_pos: int) -> None:
        if n_rows > self._capacity_rows:
            raise ConfigError(
                f"an evaluation has {n_rows} rows or more, but the context takes {self._capacity_rows}",
                field="num_batch",
                value=n_rows,
                allowed=f"1..{self._capacity_rows}",
                hint="split the rows, or open the context with a larger `num_batch`",
            )
        if start_pos < 0:
            raise ConfigError(f"`start_pos` is {start_pos}, expected 0 or more", field="start_pos", value=start_pos)
        raise ContextFullError(
            f"positions {start_pos}..{end_pos - 1} do not fit into a context of {self._ctx_tokens} tokens",
            hint="open the context with more tokens (`num_ctx`) or use a shorter prompt",
        )


class FloatInput:
    """Float rows of an evaluation, copied into one array that is allocated at first use and stays where it is."""

    def __init__(self, name: str, *, capacity_rows: int, width: int) -> None:
        self._name = name
        self._capacity_rows = capacity_rows
        self._width = width
        self._array: FloatRows | None = None
        self._pointer: Any = None

    def place(self, rows: FloatRows, n_rows: int) -> Any:
        """Copy ``rows``, float32[n_rows, width], and return where they are.

        Raises:
            ConfigError: the shape does not fit.
        """
        if rows.shape != (n_rows, self._width):
            raise ConfigError(
                f"`{self._name}` has shape {rows.shape}, expected {(n_rows, self._width)}",
                field=self._name,
                value=rows.shape,
                allowed=str((n_rows, self._width)),
            )
        if self._array is None:
            self._array = np.empty((self._capacity_rows, self._width), np.float32)
            self._pointer = self._array.ctypes.data_as(_FLOATS)
        self._array[:n_rows] = rows
        return self._pointer
