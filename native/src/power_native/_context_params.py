"""From the settings of a context to the library's parameters; every range is checked here."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from power_core.errors import ConfigError, out_of_range
from power_core.target import Arithmetic, ContextSettings
from power_core.tokens import TokenId
from power_native import _raw

_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_LARGEST = 2**31 - 1


def target_parameters(settings: ContextSettings, arithmetic: Arithmetic) -> _raw.power_context_params:
    """Parameters of a target's context.

    Raises:
        ConfigError: a value out of range; ``batch_rows`` or ``ubatch_rows`` below ``snapshots + 2``; flash attention
            off although the arithmetic is exact.
    """
    _require_room("num_batch", settings.batch_rows, settings.snapshots)
    if settings.ubatch_rows and settings.snapshots:
        _require_room("num_ubatch", settings.ubatch_rows, settings.snapshots)
    if settings.ctx_tokens < settings.snapshots + 2 and settings.snapshots > 0:
        raise ConfigError(
            f"`num_ctx` is {settings.ctx_tokens}, but {settings.snapshots} snapshots need at least "
            f"{settings.snapshots + 2} tokens",
            field="num_ctx",
            value=settings.ctx_tokens,
            allowed=f">= {settings.snapshots + 2}",
        )
    return _parameters(settings, arithmetic, kind=_raw.POWER_CONTEXT_TARGET, causal=True)


def draft_parameters(
    settings: ContextSettings, arithmetic: Arithmetic, *, kind: int, causal: bool = True
) -> _raw.power_context_params:
    """Parameters of a drafter's context; ``kind`` is one of ``power_context_kind``."""
    return _parameters(settings, arithmetic, kind=kind, causal=causal)


def limit_head(
    parameters: _raw.power_context_params, n_vocab: int, rows: int, tokens: Sequence[TokenId] | None
) -> None:
    """Let only the first ``rows`` tokens, or only ``tokens``, have logits.

    Raises:
        ConfigError: more rows than tokens, no token at all, both, a token out of range, or one that occurs twice.
    """
    if tokens is None:
        if not 0 <= rows <= n_vocab:
            raise out_of_range("head_rows", rows, f"0 to {n_vocab}")
        parameters.head_rows = rows
        return
    if rows:
        raise out_of_range("head_rows", rows, "0 beside `head_tokens`")
    ids = np.asarray(tokens, dtype=np.int64)
    if ids.ndim != 1 or not ids.size or ids.min() < 0 or ids.max() >= n_vocab or np.unique(ids).size < ids.size:
        raise out_of_range("head_tokens", tokens, f"at least one token of 0..{n_vocab - 1}, each of them once")
    parameters.head_rows = ids.size
    parameters.head_tokens = (ctypes.c_int32 * ids.size)(*ids.tolist())


def _parameters(
    settings: ContextSettings, arithmetic: Arithmetic, *, kind: int, causal: bool
) -> _raw.power_context_params:
    _require("num_ctx", settings.ctx_tokens, 1)
    _require("num_batch", settings.batch_rows, 1)
    _require("num_ubatch", settings.ubatch_rows, 0)
    _require("sequences", settings.sequences, 1)
    _require("snapshots", settings.snapshots, 0)
    _require("num_thread", settings.threads, 0)
    _require("num_thread_batch", settings.rows_threads, 0)
    _require("output_rows", settings.output_rows, 0)
    processors = (ctypes.c_uint32 * len(settings.processors))(*settings.processors)
    return _raw.power_context_params(
        size=ctypes.sizeof(_raw.power_context_params),
        kind=kind,
        ctx_tokens=settings.ctx_tokens,
        batch_rows=settings.batch_rows,
        physical_rows=settings.ubatch_rows,
        sequences=settings.sequences,
        snapshots=settings.snapshots,
        threads=settings.threads,
        flash_attention=_flash_attention(settings, arithmetic),
        output_rows=min(settings.output_rows, settings.batch_rows),
        causal=causal,
        rows_threads=settings.rows_threads,
        kv_type=settings.kv_type.encode(),
        processors=ctypes.cast(processors, ctypes.POINTER(ctypes.c_uint32)) if settings.processors else None,
        processor_count=len(settings.processors),
    )


def _require_room(field: str, rows: int, snapshots: int) -> None:
    if rows < snapshots + 2:
        raise ConfigError(
            f"`{field}` is {rows}, but {snapshots} snapshots need at least {snapshots + 2} rows",
            field=field,
            value=rows,
            allowed=f">= {snapshots + 2}",
            hint=f"raise `{field}` or lower the number of snapshots",
        )


def _flash_attention(settings: ContextSettings, arithmetic: Arithmetic) -> int:
    if settings.flash_attention == "off" and settings.kv_type not in ("f16", "f32", "bf16"):
        raise ConfigError(
            f"`kv_type` is {settings.kv_type!r}, which needs flash attention, and that is off",
            field="kv_type",
            value=settings.kv_type,
            allowed="f16, f32, bf16",
            hint="leave `flash_attention` out, or keep keys and values as f16",
        )
    if arithmetic == "fast":
        return _FLASH_ATTENTION[settings.flash_attention]
    if settings.flash_attention == "off":
        raise ConfigError(
            "`flash_attention` is 'off', but exact arithmetic needs it on",
            field="flash_attention",
            value="off",
            allowed="on, auto",
            hint="leave `flash_attention` out, or use `--arithmetic fast`",
        )
    return _FLASH_ATTENTION["on"]


def _require(field: str, value: int, lowest: int) -> None:
    if not lowest <= value <= _LARGEST:
        raise ConfigError(
            f"`{field}` is {value!r}, expected {lowest} or more",
            field=field,
            value=value,
            allowed=f"{lowest}..{_LARGEST}",
        )
