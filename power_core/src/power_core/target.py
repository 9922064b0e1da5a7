"""The target protocols: a loaded model, and a context that evaluates rows.

power_core knows nothing of llama.cpp; a backend registers a ``BackendSpec`` that opens a ``TargetModel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.cache_state import CacheState
from power_core.sampler import Sampler, SamplingSettings
from power_core.tokens import SequenceRows, TapRequest, Taps, TokenId

Arithmetic: TypeAlias = Literal["exact", "fast"]
Kernels: TypeAlias = Literal["prefill", "decode"]


@attrs.frozen(kw_only=True)
class ModelSettings:
    """How a model file is loaded.

    Attributes:
        path: GGUF file.
        gpu_layers: Layers to offload, -1 for all; with 0 no GPU is used at all.
        device: The only GPU to use, by the backend's name for it; None uses every one.
        tensor_placements: ``PATTERN=BUFFER``: tensors whose name the regular expression finds go to that buffer.
        load_nextn: Load multi-token-prediction layers.
        arithmetic: What contexts of the model compute with; the weights' layout is the same.
        use_mmap: Map the file instead of reading it.
        use_mlock: Keep the weights in memory.
    """

    path: Path
    gpu_layers: int = 0
    device: str | None = None
    tensor_placements: tuple[str, ...] = ()
    load_nextn: bool = False
    arithmetic: Arithmetic = "exact"
    use_mmap: bool = True
    use_mlock: bool = False


@attrs.frozen(kw_only=True)
class ContextSettings:
    """How a context is opened.

    Attributes:
        ctx_tokens: Positions per sequence.
        batch_rows: Most rows in one evaluation.
        ubatch_rows: Rows computed at once, also the prompt's chunk size; 0 for ``batch_rows``; at least
            ``snapshots + 2``. Fewer need less memory.
        snapshots: Recurrent-state snapshots asked for (S); 0 for models without recurrent state.
        sequences: Independent sequences.
        threads: Compute threads; 0 lets the backend choose.
        rows_threads: Compute threads of evaluations of several rows; 0 for ``threads``.
        processors: Numbers of the processors that the compute threads run on; empty leaves that to the system.
        kv_type: Type in which keys and values are kept, by ggml's name.
        device_choice: Greedy choices are computed on the device, and logits stay there; see ``TargetContext.argmax``.
        flash_attention: ``on``, ``off`` or ``auto``; exact arithmetic needs it on.
        output_rows: Most rows with logits in one evaluation, 0 for ``batch_rows``; bounds the logits buffer.
        taps: Hidden rows to expose.
    """

    ctx_tokens: int
    batch_rows: int = 512
    ubatch_rows: int = 0
    snapshots: int = 0
    sequences: int = 1
    threads: int = 0
    rows_threads: int = 0
    processors: tuple[int, ...] = ()
    kv_type: str = "f16"
    device_choice: bool = False
    flash_attention: Literal["on", "off", "auto"] = "auto"
    output_rows: int = 0
    taps: TapRequest = attrs.field(factory=TapRequest)


@attrs.frozen(kw_only=True)
class ModelInfo:
    """Facts of a loaded model, read from the library. Widths and counts are in elements and tokens.

    ``devices`` names the devices that hold layers besides the CPU; it is empty when the CPU does everything.
    """

    architecture: str
    description: str
    n_vocab: int
    n_embd: int
    n_layer: int
    n_layer_nextn: int
    n_ctx_train_tokens: int
    n_swa_tokens: int
    recurrent: bool
    size_bytes: int
    bos: TokenId | None
    eos: TokenId | None
    add_bos: bool
    chat_template: str | None
    devices: tuple[str, ...] = ()


@runtime_checkable
class Vocabulary(Protocol):
    """The model's tokenizer."""

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[TokenId]: ...

    def token_bytes(self, token: TokenId, *, special: bool = False) -> bytes:
        """The bytes a token adds to the text; control tokens add nothing unless ``special``."""
        ...

    def is_end(self, token: TokenId) -> bool:
        """True for tokens that end generation."""
        ...


@runtime_checkable
class TargetContext(CacheState, Protocol):
    """Evaluates rows of the target and exposes their logits and hidden rows until the next evaluation.

    Owned by one caller at a time; a second thread gets ``StateError``, never a queue.
    """

    @property
    def ctx_tokens(self) -> int:
        """Positions per sequence that may be used."""
        ...

    @property
    def batch_rows(self) -> int: ...

    @property
    def ubatch_rows(self) -> int:
        """Rows computed at once; an evaluation of more rows takes several passes."""
        ...

    @property
    def snapshots(self) -> int:
        """Snapshots granted (read back after opening); the rollback window of recurrent state."""
        ...

    @property
    def recurrent(self) -> bool:
        """True when some state cannot be truncated freely."""
        ...

    @property
    def compute_ns(self) -> int:
        """Nanoseconds spent inside the backend's compute so far."""
        ...

    def evaluate(self, sequences: Sequence[SequenceRows], *, kernels: Kernels) -> None:
        """Evaluate all rows in order, at the end of their sequences.

        ``decode`` rows are computed exactly as single rows under exact arithmetic; ``prefill`` may use faster kernels.
        Raises ``Cancelled`` after ``abort``, ``ContextFullError`` (state unchanged), ``NativeCallError`` otherwise;
        after an abort or a failure the touched sequences may be stale.
        """
        ...

    def logits(self, row: int) -> NDArray[np.float32]:
        """Read-only view float32[n_vocab] of a row of the last evaluation; valid until the next one."""
        ...

    def argmax(self, row: int) -> TokenId:
        """Greedy choice at a row, lowest id on ties; ``NativeCallError`` when the row has no finite maximum.

        A context opened with ``device_choice`` returns the device's own choice, whose order on ties is the device's and
        which does not notice a row without a finite maximum.
        """
        ...

    def read_taps(self, first_row: int, n_rows: int) -> Taps:
        """Copy the hidden rows of rows [first_row, first_row + n_rows) of the last evaluation."""
        ...

    def open_sampler(self, settings: SamplingSettings) -> Sampler: ...

    def abort(self) -> None:
        """Make the running or next evaluation stop; callable from any thread."""
        ...

    def clear_abort(self) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class TargetModel(Protocol):
    """A loaded model file."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    def open_context(self, settings: ContextSettings) -> TargetContext: ...

    def close(self) -> None: ...
