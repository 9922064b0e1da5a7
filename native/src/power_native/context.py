"""A context of the library: evaluates rows, exposes their outputs, keeps the memory of its sequences."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from power_core.errors import ConfigError, NativeCallError
from power_core.sampler import Sampler, SamplingSettings
from power_core.target import Kernels
from power_core.tokens import LogitsRows, SeqId, SequenceRows, TapRequest, Taps, TokenId
from power_native import _raw
from power_native._memory import SequenceMemory
from power_native._rows import FloatInput, FloatRows, RowBuffer
from power_native.sampler import open_sampler

if TYPE_CHECKING:
    from power_native.model import NativeModel

_FLOATS = ctypes.POINTER(ctypes.c_float)


class NativeContext(SequenceMemory):
    """A context of a target or of a drafter (``power_core.target.TargetContext``).

    Owned by one caller at a time. Outputs (logits, taps) are valid until the next evaluation. ``abort`` may come from
    any thread. Opened by ``NativeModel.open_context``, ``open_nextn_context`` and ``open_draft_context``.
    """

    def __init__(
        self,
        model: NativeModel,
        parameters: _raw.power_context_params,
        *,
        taps: TapRequest | None = None,
        other: NativeContext | None = None,
        embedding_width: int = 0,
        device_choice: bool = False,
    ) -> None:
        pointer = _open(model, parameters, other)
        parents = (model,) if other is None else (model, other)
        super().__init__("context", model._library, pointer, model._functions.power_context_close, parents=parents)
        self.model = model
        self.device_choice: bool = device_choice or (other is not None and other.device_choice)
        self._chooses_on_device = False
        self.taps = taps or TapRequest()
        self._layers = (ctypes.c_uint32 * len(self.taps.layers))(*self.taps.layers)
        self._ctx_tokens = int(parameters.ctx_tokens)
        self._n_vocab = model.info.n_vocab
        self._n_embd = model.info.n_embd
        self._exact_decode = model.settings.arithmetic == "exact"
        try:
            if self._exact_decode:
                self._require_exact()
            self._granted = self._read_granted()
            self._open_taps()
        except BaseException:
            self.close()
            raise
        self._exact_now = bool(self._granted.exact)
        self._rows = RowBuffer(capacity_rows=self.batch_rows, ctx_tokens=self._ctx_tokens)
        self._embeddings = FloatInput("embeddings", capacity_rows=self.batch_rows, width=embedding_width)
        self._states = FloatInput("states", capacity_rows=self.batch_rows, width=self._n_embd)
        self._logits_row: Any = ctypes.c_float * self._n_vocab
        self._logits_pointer = _FLOATS()
        self._logits_ref = ctypes.byref(self._logits_pointer)
        self._token = ctypes.c_int32()
        self._token_ref = ctypes.byref(self._token)
        self._probability = ctypes.c_float()
        self._probability_ref = ctypes.byref(self._probability)

    # ------------------------------------------------------------------------------------------------ what was granted

    @property
    def ctx_tokens(self) -> int:
        """Positions per sequence that were asked for; the library's own number is padded up."""
        return self._ctx_tokens

    @property
    def batch_rows(self) -> int:
        return int(self._granted.batch_rows)

    @property
    def ubatch_rows(self) -> int:
        """Rows computed at once; an evaluation of more rows takes several passes."""
        return int(self._granted.physical_rows)

    @property
    def sequences(self) -> int:
        return int(self._granted.sequences)

    @property
    def snapshots(self) -> int:
        """Snapshots granted, read back after opening; the library grants none to some architectures."""
        return int(self._granted.snapshots)

    @property
    def recurrent(self) -> bool:
        return self.model.info.recurrent

    @property
    def head_bytes(self) -> int:
        """Bytes that a prediction head of fewer rows took: token ids, and copied rows where tokens were named."""
        return int(self._granted.head_bytes)

    @property
    def threads(self) -> int:
        return int(self._granted.threads)

    @property
    def rows_threads(self) -> int:
        """Threads of evaluations of several rows."""
        return int(self._granted.rows_threads)

    @property
    def flash_attention(self) -> bool:
        return bool(self._granted.flash_attention)

    @property
    def memory_bytes(self) -> int:
        """Device and host buffers of this context."""
        return int(self._granted.memory_bytes)

    @property
    def compute_ns(self) -> int:
        """Nanoseconds spent inside the library's compute so far."""
        return self._counters()[0]

    @property
    def evaluations(self) -> int:
        """Evaluations made so far."""
        return self._counters()[1]

    # --------------------------------------------------------------------------------------------------------- evaluate

    def evaluate(self, sequences: Sequence[SequenceRows], *, kernels: Kernels) -> None:
        """Evaluate all rows in order, at the end of their sequences.

        Under exact arithmetic ``decode`` rows are computed exactly as single rows are; ``prefill`` rows may use faster
        kernels.

        Raises:
            ConfigError: no rows, too many rows, a negative position, or something that is no token.
            ContextFullError: no room; the state is unchanged.
            StateError: a touched sequence is stale, another thread is inside, or the context is closed.
            Cancelled: after ``abort``; touched sequences may be stale.
            NativeCallError: otherwise; touched sequences may be stale.
        """
        if not self._gate.enter(False):
            self._refuse("evaluate")
        try:
            self._rows.fill(sequences)
            self._run(kernels)
        finally:
            self._gate.leave()

    def evaluate_inputs(
        self,
        *,
        tokens: Sequence[TokenId] | None = None,
        embeddings: FloatRows | None = None,
        states: FloatRows | None = None,
        start_pos: int,
        seq_id: SeqId = 0,
        logits: LogitsRows = "none",
        kernels: Kernels = "decode",
    ) -> None:
        """Evaluate rows of one sequence that carry more than a token; for drafters' contexts.

        Shapes: ``tokens`` n; ``embeddings`` float32[n, embedding_width]; ``states`` float32[n, n_embd].

        Args:
            tokens: Token of each row; None for rows that are embeddings only.
            embeddings: Embedding row of each row, for a context opened with ``embedding_width``.
            states: State row of each row, for a context of a multi-token-prediction head.
            start_pos: Position of the first row.
            seq_id: The rows' sequence.
            logits: Which rows have logits afterwards.
            kernels: As for ``evaluate``.

        Raises:
            ConfigError: a shape that does not fit; otherwise as ``evaluate``.
        """
        if not self._gate.enter(False):
            self._refuse("evaluate_inputs")
        try:
            n_rows = self._rows.fill_one(tokens, embeddings, start_pos=start_pos, seq_id=seq_id, logits=logits)
            self._place_floats(embeddings, states, n_rows)
            self._run(kernels)
        finally:
            self._rows.use_tokens_only()
            self._gate.leave()

    def set_nextn_head(self, head: int) -> None:
        """Choose the prediction head that the following evaluations run (multi-token-prediction contexts)."""
        self._call("power_context_set_nextn_head", head)

    # ---------------------------------------------------------------------------------------------------------- outputs

    def logits(self, row: int) -> NDArray[np.float32]:
        """Read-only view float32[n_vocab] of a row of the last evaluation; valid until the next one.

        The view keeps the context from being collected. It does not keep it open: after ``close`` of the context or of
        its model, reading the view is undefined.
        """
        self._call("power_logits", row, self._logits_ref)
        row_array = self._logits_row.from_address(ctypes.addressof(self._logits_pointer.contents))
        row_array.context = self  # the view's base is this array
        view = np.frombuffer(memoryview(row_array), np.float32)
        view.flags.writeable = False
        return view

    def argmax(self, row: int) -> TokenId:
        """Greedy choice at a row; the lowest id wins ties.

        Raises:
            NativeCallError: the row has no logits, or no finite maximum.
        """
        self._call("power_argmax", row, self._token_ref, None)
        return self._token.value

    def argmax_probability(self, row: int) -> tuple[TokenId, float]:
        """Greedy choice at a row and its softmax probability."""
        self._call("power_argmax", row, self._token_ref, self._probability_ref)
        return self._token.value, self._probability.value

    def read_taps(self, first_row: int, n_rows: int) -> Taps:
        """Copy the hidden rows of rows [first_row, first_row + n_rows) of the last evaluation, in its order.

        Shapes: ``nextn`` float32[n_rows, n_embd]; ``layers`` float32[n_rows, n_layers, n_embd].
        """
        nextn = self.read_nextn(first_row, n_rows) if self.taps.nextn else None
        return Taps(nextn=nextn, layers=self._read_layers(first_row, n_rows) if self.taps.layers else None)

    def read_nextn(self, first_row: int, n_rows: int) -> FloatRows:
        """Copy the state rows of rows of the last evaluation; shape float32[n_rows, n_embd]."""
        rows = np.empty((max(n_rows, 0), self._n_embd), np.float32)
        self._call("power_read_nextn", first_row, n_rows, _address(rows))
        return rows

    def open_sampler(self, settings: SamplingSettings) -> Sampler:
        """Open a sampler that draws at rows of this context's last evaluation.

        Under ``device_choice`` a greedy one takes the device's choices; every other one needs logits, which then come
        to the host again.
        """
        self.choose_on_device(settings.greedy)
        return open_sampler(self, settings)

    def choose_on_device(self, wanted: bool) -> None:
        """Let the next evaluations choose greedily on the device, where the context was opened for that.

        A change costs a new graph and drops the last outputs; ``logits`` is refused while it is on.
        """
        wanted = wanted and self.device_choice
        if wanted != self._chooses_on_device:
            self._call("power_context_choose_on_device", wanted)
            self._chooses_on_device = wanted

    # ------------------------------------------------------------------------------------------------------------ abort

    def abort(self) -> None:
        """Make the running or the next evaluation stop; callable from any thread."""
        self._call_any_time("power_context_abort")

    def clear_abort(self) -> None:
        """Take an ``abort`` back that no evaluation has seen."""
        self._call_any_time("power_context_clear_abort")

    def abort_after(self, nodes: int) -> None:
        """Testing aid: abort the next evaluation after this many graph nodes; negative switches it off."""
        self._call_any_time("power_context_abort_after", nodes)

    # --------------------------------------------------------------------------------------------------------- internal

    def _place_floats(self, embeddings: FloatRows | None, states: FloatRows | None, n_rows: int) -> None:
        raw = self._rows.raw
        if embeddings is not None:
            raw.embeddings = self._embeddings.place(embeddings, n_rows)
        if states is not None:
            raw.states = self._states.place(states, n_rows)

    def _run(self, kernels: Kernels) -> None:
        self._choose_kernels(kernels)
        self._call_held("power_evaluate", self._rows.reference)

    def _call_decoding(self, symbol: str, argument: object) -> None:
        """Call a drafting primitive, which evaluates rows, with the kernels of ``decode``."""
        if not self._gate.enter(False):
            self._refuse(symbol)
        try:
            self._choose_kernels("decode")
            self._call_held(symbol, argument)
        finally:
            self._gate.leave()

    def _choose_kernels(self, kernels: Kernels) -> None:
        exact = self._exact_decode and kernels == "decode"
        if exact != self._exact_now:
            self._call_held("power_context_set_exact", exact)
            self._exact_now = exact

    def _read_layers(self, first_row: int, n_rows: int) -> FloatRows:
        n_layers = len(self._layers)
        rows = np.empty((max(n_rows, 0), n_layers, self._n_embd), np.float32)
        self._call("power_read_layers", self._layers, n_layers, first_row, n_rows, _address(rows))
        return rows

    def _require_exact(self) -> None:
        """Switch exact arithmetic on once, so that what cannot compute it is refused before the first token."""
        try:
            self._call("power_context_set_exact", 1)
        except NativeCallError as error:
            if error.status != _raw.POWER_UNSUPPORTED:
                raise
            raise ConfigError(
                f"exact arithmetic is not possible here: {error}",
                field="arithmetic",
                value="exact",
                allowed="guarded, fast",
                hint="use `--arithmetic guarded`, or `fast`, which claims nothing",
            ) from error

    def _read_granted(self) -> _raw.power_context_info:
        granted = _raw.power_context_info(size=ctypes.sizeof(_raw.power_context_info))
        self._call("power_context_info_get", ctypes.byref(granted))
        return granted

    def _open_taps(self) -> None:
        if self.taps.nextn:
            self._call("power_context_tap_nextn", 1, 0)
        for layer in self.taps.layers:
            self._call("power_context_tap_layer", layer, 1)

    def _counters(self) -> tuple[int, int]:
        compute_ns, evaluations = ctypes.c_uint64(), ctypes.c_uint64()
        self._call_any_time("power_context_counters", ctypes.byref(compute_ns), ctypes.byref(evaluations))
        return compute_ns.value, evaluations.value


def _open(model: NativeModel, parameters: _raw.power_context_params, other: NativeContext | None) -> object:
    if other is not None:
        parameters.other = other._pointer("power_context_open")
    pointer = model._pointer("power_context_open")
    return model._library.open_handle("power_context_open", pointer, ctypes.byref(parameters))


def _address(rows: FloatRows) -> Any:
    """Point at the rows' first element; the pointer keeps the array alive."""
    return _FLOATS(ctypes.c_float.from_buffer(rows.data)) if rows.size else None
