"""Each status has its exception, and each exception its code."""

import pytest

from power_core.errors import (
    Cancelled,
    ContextFullError,
    ModelLoadError,
    NativeCallError,
    OutOfMemoryError,
    RollbackRefused,
    StateError,
)
from power_native import _raw
from power_native._status import STATUS_NAMES, error_for, new_error

EXPECTED = {
    _raw.POWER_INVALID_ARGUMENT: (NativeCallError, "native.call"),
    _raw.POWER_ABI_MISMATCH: (NativeCallError, "native.call"),
    _raw.POWER_LOAD_FAILED: (ModelLoadError, "native.model_load"),
    _raw.POWER_CONTEXT_FULL: (ContextFullError, "native.context_full"),
    _raw.POWER_ABORTED: (Cancelled, "cancelled"),
    _raw.POWER_COMPUTE_FAILED: (NativeCallError, "native.call"),
    _raw.POWER_BUSY: (StateError, "state.busy"),
    _raw.POWER_ROLLBACK_REFUSED: (RollbackRefused, "native.rollback_refused"),
    _raw.POWER_STALE: (StateError, "state.stale"),
    _raw.POWER_UNSUPPORTED: (NativeCallError, "native.call"),
    _raw.POWER_OUT_OF_MEMORY: (OutOfMemoryError, "native.out_of_memory"),
    _raw.POWER_EXCEPTION: (NativeCallError, "native.call"),
    _raw.POWER_NO_FINITE_LOGIT: (NativeCallError, "native.call"),
    _raw.POWER_BAD_GRAMMAR: (NativeCallError, "native.call"),
}


def test_every_status_of_the_header_is_expected():
    statuses = {value for value, name in STATUS_NAMES.items() if name != "POWER_OK"}
    assert statuses == set(EXPECTED)
    assert statuses == set(range(1, _raw.POWER_BAD_GRAMMAR + 1))


@pytest.mark.parametrize("status", sorted(EXPECTED))
def test_status_becomes_its_exception(status, tmp_path):
    kind, code = EXPECTED[status]
    error = new_error()
    error.text = b"what happened"
    raised = error_for("power_evaluate", status, error, tmp_path)
    assert type(raised) is kind
    assert raised.code == code
    assert "what happened" in str(raised)


def test_unknown_status_is_shown(tmp_path):
    raised = error_for("power_evaluate", 77, new_error(), tmp_path)
    assert str(raised) == "`power_evaluate` failed with unknown status 77: no text was given"


def test_broken_text_is_shown_and_not_fatal(tmp_path):
    error = new_error()
    error.text = b"\xff bad"
    assert "bad" in str(error_for("power_evaluate", _raw.POWER_EXCEPTION, error, tmp_path))
