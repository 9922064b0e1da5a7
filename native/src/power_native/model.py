"""A model file, loaded by the library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import attrs

from power_core.errors import ArtifactNotFoundError, ConfigError, NativeCallError, PowerError
from power_core.target import ContextSettings, ModelInfo, ModelSettings
from power_core.tokens import TokenId
from power_native import _raw
from power_native._context_budget import least_context_bytes
from power_native._context_params import draft_parameters, limit_head, target_parameters
from power_native._handles import SharedHandle
from power_native._loader import Library, library
from power_native._memory_budget import available_memory, model_file_bytes, require_memory
from power_native.context import NativeContext
from power_native.info import device_memory_bytes
from power_native.vocabulary import NativeVocabulary

Progress = Callable[[float], None]


@attrs.frozen(kw_only=True)
class NativeTraits:
    """Facts of a loaded model that only drafters ask for.

    Attributes:
        mask_token: The vocabulary's mask token, None when it has none.
        has_layer_taps: The architecture exposes layer inputs.
        has_nextn_rows: The architecture exposes multi-token-prediction state rows.
        n_embd_in: Elements of one embedding row that a draft context of the model takes.
    """

    mask_token: TokenId | None
    has_layer_taps: bool
    has_nextn_rows: bool
    n_embd_in: int


class NativeModel(SharedHandle):
    """A loaded model (``power_core.target.TargetModel``). Closing it closes its contexts first.

    Several threads may use one model; each needs a context of its own.
    """

    def __init__(self, owner: Library, pointer: object, settings: ModelSettings) -> None:
        super().__init__("model", owner, pointer, owner.functions.power_model_close)
        self.settings = settings
        raw = _raw.power_model_info(size=ctypes.sizeof(_raw.power_model_info))
        self._call("power_model_info_get", ctypes.byref(raw))
        self._info = _model_info(raw, self._text("power_model_chat_template"))
        self._traits = _traits(raw)
        self._vocabulary = NativeVocabulary(self, self._info.n_vocab)

    @classmethod
    def open(
        cls, settings: ModelSettings, progress: Progress | None = None, *, repack_weights: bool = False
    ) -> NativeModel:
        """Load a model file.

        Args:
            settings: What to load.
            progress: Called with the loaded fraction, 0..1. What it raises stops the loading and is raised here.
            repack_weights: Let the library keep the weights in another layout, with kernels of their own. Sessions
                never do (docs/decisions/0018); contexts of exact arithmetic are refused.

        Raises:
            ArtifactNotFoundError: ``settings.path`` is not a regular file.
            OutOfMemoryError: the file, with all parts of a split one, is larger than the memory that is available.
            ConfigError: there is no such device, it is no GPU, or a tensor placement is no ``PATTERN=BUFFER``.
            ModelLoadError: the library refused the file; its text and log are in the error.
        """
        path = settings.path
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise ArtifactNotFoundError(
                f"the model {str(path)!r} {what}", path=str(path), hint="give the path of a GGUF file"
            )
        owner = library()
        _require_fit(path, settings.gpu_layers)
        return cls(owner, _load(owner, settings, progress, repack_weights), settings)

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def traits(self) -> NativeTraits:
        """Facts that only drafters ask for."""
        return self._traits

    @property
    def vocabulary(self) -> NativeVocabulary:
        return self._vocabulary

    def metadata(self, key: str) -> str | None:
        """A metadata value as text, None when the file has no such key."""
        return self._text("power_model_meta", key.encode())

    def open_context(self, settings: ContextSettings) -> NativeContext:
        """Open a context for the target.

        Raises:
            ConfigError: a value is out of range, ``batch_rows`` is below ``snapshots + 2`` (named ``num_batch``), flash
                attention is off under exact arithmetic, or a backend of the context has no exact arithmetic.
            OutOfMemoryError: the context does not fit.
            NativeCallError: the library refused, e.g. taps that the architecture does not have.
        """
        parameters = target_parameters(settings, self.settings.arithmetic)
        self._require_fit(parameters)
        return NativeContext(self, parameters, taps=settings.taps, device_choice=settings.device_choice)

    def open_nextn_context(
        self,
        target: NativeContext,
        *,
        batch_rows: int | None = None,
        threads: int = 0,
        head_rows: int = 0,
        head_tokens: Sequence[TokenId] | None = None,
        kv_type: str = "f16",
        flash_attention: Literal["on", "off", "auto"] = "auto",
    ) -> NativeContext:
        """Open a context that runs this model's multi-token-prediction head beside ``target``.

        Its rows need a token and a state row each. It has the target's positions and sequences and is closed before it.

        Args:
            target: A context of this model with ``taps.nextn``.
            batch_rows: Most rows in one evaluation; the target's when None.
            threads: Compute threads; 0 lets the library choose.
            head_rows: Only the first so many tokens have logits, the others' are minus infinity, and probabilities are
                over those; 0 gives all. The rows are the model's own.
            head_tokens: Only these tokens have logits. Their rows are copied; ``head_bytes`` of the context says how
                much that takes.
            kv_type: As in ``ContextSettings``, for the head's own keys and values.
            flash_attention: As in ``ContextSettings``.

        Raises:
            ConfigError: the model was loaded without its multi-token-prediction layers, a token is not in the
                vocabulary or named twice, the head cannot have fewer rows (architecture, repacked weights), or as
                ``open_context``.
            OutOfMemoryError: the context does not fit.
        """
        if self._info.n_layer_nextn == 0:
            raise ConfigError(
                f"the model {str(self.settings.path)!r} has no multi-token-prediction layers loaded",
                field="load_nextn",
                value=self.settings.load_nextn,
                hint="load a model that has them, with `load_nextn`",
            )
        rows = target.batch_rows if batch_rows is None else batch_rows
        settings = ContextSettings(
            ctx_tokens=target.ctx_tokens,
            batch_rows=rows,
            ubatch_rows=min(target.ubatch_rows, rows),
            sequences=target.sequences,
            threads=threads,
            kv_type=kv_type,
            flash_attention=flash_attention,
            output_rows=target.sequences,
        )
        parameters = draft_parameters(settings, self.settings.arithmetic, kind=_raw.POWER_CONTEXT_NEXTN)
        limit_head(parameters, self._info.n_vocab, head_rows, head_tokens)
        self._require_fit(parameters)
        try:
            return NativeContext(self, parameters, other=target)
        except NativeCallError as error:
            if parameters.head_rows and error.status == _raw.POWER_UNSUPPORTED:
                raise _head_error(error, parameters.head_rows) from error
            raise

    def open_draft_context(
        self,
        settings: ContextSettings,
        *,
        target: NativeContext | None = None,
        causal: bool = True,
        embedding_width: int = 0,
    ) -> NativeContext:
        """Open a context of a drafter's own model.

        Args:
            settings: As for a target.
            target: The target's context when the draft shares its embeddings, head or memory; closed after this one.
            causal: False lets every row of a block see every other.
            embedding_width: Elements of one embedding row the draft takes, ``traits.n_embd_in``; 0 when it takes tokens
                only.

        Raises:
            ConfigError: another ``embedding_width``, or as ``open_context``.
            OutOfMemoryError: the context does not fit.
            NativeCallError: the library refused.
        """
        width = self._traits.n_embd_in
        if embedding_width not in (0, width):
            raise ConfigError(
                f"`embedding_width` is {embedding_width!r}, but the model {str(self.settings.path)!r} takes embedding "
                f"rows of {width} elements",
                field="embedding_width",
                value=embedding_width,
                allowed=f"0, {width}",
            )
        parameters = draft_parameters(settings, self.settings.arithmetic, kind=_raw.POWER_CONTEXT_DRAFT, causal=causal)
        self._require_fit(parameters)
        return NativeContext(self, parameters, taps=settings.taps, other=target, embedding_width=embedding_width)

    def _require_fit(self, parameters: _raw.power_context_params) -> None:
        require_memory(
            least_context_bytes(self._info, self.metadata, parameters),
            f"a context of {parameters.ctx_tokens:,} tokens for {parameters.sequences} sequence(s)",
            hint="use fewer tokens of context (`num_ctx`) or fewer sequences, or free memory",
            limit=available_memory(),
            extra_bytes=device_memory_bytes() if self.settings.gpu_layers else 0,
        )

    def _text(self, symbol: str, *arguments: object) -> str | None:
        """Text that a function copies out in full, None when the library reports it absent."""
        capacity, length = 256, ctypes.c_uint32()
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            try:
                self._call(symbol, *arguments, buffer, capacity, ctypes.byref(length))
            except NativeCallError as error:
                if error.status == _raw.POWER_UNSUPPORTED:
                    return None
                raise
            if length.value < capacity:
                return buffer.raw[: length.value].decode("utf-8", "replace")
            capacity = length.value + 1

    def _end_tokens(self) -> frozenset[TokenId]:
        if not self._gate.enter():
            self._refuse("power_token_is_end")
        try:
            pointer, is_end = self._pointer("power_token_is_end"), self._functions.power_token_is_end
            return frozenset(token for token in range(self._info.n_vocab) if is_end(pointer, token))
        finally:
            self._gate.leave()


def _require_fit(path: Path, gpu_layers: int) -> None:
    require_memory(
        model_file_bytes(path),
        f"the model {str(path)!r}",
        hint="use a smaller quantisation of the model, or free memory",
        limit=available_memory(),
        extra_bytes=device_memory_bytes() if gpu_layers else 0,
    )


def _load(owner: Library, settings: ModelSettings, progress: Progress | None, repack_weights: bool) -> object:
    raised: list[BaseException] = []

    def on_progress(fraction: float, _user_data: object) -> int:
        try:
            if progress is not None:
                progress(fraction)
        except BaseException as error:  # noqa: BLE001 - nothing may cross the C frames; raised again below
            raised.append(error)
            return 0
        return 1

    parameters = _raw.power_model_params(
        size=ctypes.sizeof(_raw.power_model_params),
        gpu_layers=settings.gpu_layers,
        load_nextn=settings.load_nextn,
        repack_weights=repack_weights,
        use_mmap=settings.use_mmap,
        use_mlock=settings.use_mlock,
        progress=_raw.power_progress(on_progress),
        device=settings.device.encode() if settings.device is not None else None,
        placements="\n".join(settings.tensor_placements).encode(),
    )
    try:
        model = owner.open_handle("power_model_open", os.fsencode(settings.path), ctypes.byref(parameters))
    except PowerError as error:
        if raised:
            raise raised[0] from None
        if isinstance(error, NativeCallError) and error.status == _raw.POWER_INVALID_ARGUMENT:
            raise _placement_error(settings, error) from error
        raise
    if raised:
        owner.functions.power_model_close(model)
        raise raised[0]
    return model


def _placement_error(settings: ModelSettings, error: NativeCallError) -> ConfigError:
    """What the library refuses among a model's settings is where things shall go."""
    of_tensors = "`placements`" in str(error)
    return ConfigError(
        f"the model cannot be placed so: {error.detail.splitlines()[0]}",
        field="override_tensor" if of_tensors else "device",
        value=settings.tensor_placements if of_tensors else settings.device,
        hint="`power doctor` lists the devices; a buffer of a device has its name",
    )


def _head_error(error: NativeCallError, rows: int) -> ConfigError:
    return ConfigError(
        f"the prediction head cannot have {rows} rows: {error.detail.splitlines()[0]}",
        field="head_rows",
        value=rows,
        allowed="0",
        hint="use `--arithmetic exact`, which keeps weights as they are in the file, or the whole head",
    )


def _model_info(raw: _raw.power_model_info, chat_template: str | None) -> ModelInfo:
    return ModelInfo(
        architecture=raw.architecture.decode(),
        description=raw.description.decode(),
        n_vocab=raw.n_vocab,
        n_embd=raw.n_embd,
        n_layer=raw.n_layer,
        n_layer_nextn=raw.n_layer_nextn,
        n_ctx_train_tokens=raw.n_ctx_train,
        n_swa_tokens=raw.n_swa,
        recurrent=bool(raw.recurrent),
        size_bytes=raw.size_bytes,
        bos=_token(raw.bos),
        eos=_token(raw.eos),
        add_bos=bool(raw.add_bos),
        chat_template=chat_template,
        devices=tuple(raw.devices.decode().split()),
    )


def _traits(raw: _raw.power_model_info) -> NativeTraits:
    return NativeTraits(
        mask_token=_token(raw.mask),
        has_layer_taps=bool(raw.has_layer_taps),
        has_nextn_rows=bool(raw.has_nextn_rows),
        n_embd_in=raw.n_embd_in,
    )


def _token(value: int) -> TokenId | None:
    return value if value >= 0 else None
