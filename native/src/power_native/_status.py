"""From the status of a native call to a typed error that carries everything the library said."""

from __future__ import annotations

from ctypes import byref, sizeof
from pathlib import Path
from typing import Any

from power_core.errors import (
    Cancelled,
    ContextFullError,
    ModelLoadError,
    NativeCallError,
    NativeError,
    OutOfMemoryError,
    PowerError,
    RollbackRefused,
    StateError,
)
from power_native import _raw

STATUS_NAMES = {
    getattr(_raw, name): name
    for name in (
        "POWER_OK",
        "POWER_INVALID_ARGUMENT",
        "POWER_ABI_MISMATCH",
        "POWER_LOAD_FAILED",
        "POWER_CONTEXT_FULL",
        "POWER_ABORTED",
        "POWER_COMPUTE_FAILED",
        "POWER_BUSY",
        "POWER_ROLLBACK_REFUSED",
        "POWER_STALE",
        "POWER_UNSUPPORTED",
        "POWER_OUT_OF_MEMORY",
        "POWER_EXCEPTION",
        "POWER_NO_FINITE_LOGIT",
        "POWER_BAD_GRAMMAR",
    )
}

_NATIVE_ERRORS: dict[int, tuple[type[NativeError], str]] = {
    _raw.POWER_LOAD_FAILED: (ModelLoadError, "check the file with `power inspect FILE`"),
    _raw.POWER_CONTEXT_FULL: (ContextFullError, "use a larger context or a shorter prompt"),
    _raw.POWER_ROLLBACK_REFUSED: (
        RollbackRefused,
        "restore a checkpoint, or clear the sequence and evaluate its tokens again",
    ),
    _raw.POWER_OUT_OF_MEMORY: (OutOfMemoryError, "use a smaller quantisation, a smaller context or fewer batch rows"),
    _raw.POWER_UNSUPPORTED: (NativeCallError, "this model or backend cannot do it; nothing else was done instead"),
    _raw.POWER_EXCEPTION: (NativeCallError, "report this with the text above: the library raised an exception"),
}

_STATE_ERRORS = {
    _raw.POWER_BUSY: ("busy", "use a context from one thread at a time"),
    _raw.POWER_STALE: ("stale", "restore a checkpoint, or clear the sequence, before evaluating on it"),
}


def new_error() -> _raw.power_error:
    """Return an error buffer for repeated use, so that calls that succeed allocate nothing."""
    error = _raw.power_error()
    error.size = sizeof(_raw.power_error)
    return error


def call(functions: Any, library: Path, symbol: str, *arguments: object) -> None:
    """Call ``symbol(*arguments, err)`` with an error buffer of its own; raise the typed error of a failure.

    Args:
        functions: The library's functions by name.
        library: Path of the library, for the message.
        symbol: The function to call.
        arguments: All of its arguments but the last, which is the error buffer.
    """
    error = new_error()
    status = getattr(functions, symbol)(*arguments, byref(error))
    if status:
        raise error_for(symbol, status, error, library)


def error_for(symbol: str, status: int, error: _raw.power_error, library: Path) -> PowerError:
    """Build the exception of a failed call.

    Args:
        symbol: The function that was called.
        status: What it returned; not POWER_OK.
        error: The buffer it filled.
        library: Path of the library, for the message.

    Returns:
        The typed error; a log tail, when the library logged something, is in ``detail`` and in the traceback's notes.
    """
    text = error.text.decode("utf-8", "replace").strip()
    log_tail = error.log_tail.decode("utf-8", "replace").strip()
    name = STATUS_NAMES.get(status, f"unknown status {status}")
    message = f"`{symbol}` failed with {name}: {text or 'no text was given'}"
    raised = _build(status, message, symbol, text, log_tail, library)
    if log_tail:
        raised.add_note(f"last lines of the library's log:\n{log_tail}")
    return raised


def _build(status: int, message: str, symbol: str, text: str, log_tail: str, library: Path) -> PowerError:
    if status == _raw.POWER_ABORTED:
        return Cancelled(text or "the evaluation was aborted")
    if status in _STATE_ERRORS:
        state, hint = _STATE_ERRORS[status]
        return StateError(message, state=state, operation=symbol, hint=hint, code=f"state.{state}")
    kind, hint = _NATIVE_ERRORS.get(status, (NativeCallError, ""))
    detail = "\n".join(part for part in (text, log_tail) if part)
    return kind(message, symbol=symbol, status=status, detail=detail, library=str(library), hint=hint)
