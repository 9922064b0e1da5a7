"""Abort, and a context that two threads want at once."""

import ctypes
import threading
import time

import pytest

from power_core.errors import Cancelled, StateError
from power_core.tokens import SequenceRows
from power_native import _raw
from power_native._status import new_error

pytestmark = pytest.mark.native


def feed(context, tokens, *, start_pos=None, logits="all"):
    start = context.length_tokens() if start_pos is None else start_pos
    context.evaluate([SequenceRows(start_pos=start, tokens=tokens, logits=logits)], kernels="decode")


def test_abort_holds_until_it_is_cleared(open_context):
    context = open_context()
    context.abort()
    for _ in range(2):
        with pytest.raises(Cancelled):
            feed(context, [1])
    context.clear_abort()
    feed(context, [1])
    assert context.length_tokens() == 1


class LongEvaluation:
    """An evaluation of many seconds in another thread; leaving the block aborts it."""

    def __init__(self, context):
        self.context = context
        self.errors = []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            feed(self.context, [1] * 8000, start_pos=0, logits="none")
        except Cancelled as error:
            self.errors.append(error)

    def __enter__(self):
        self.thread.start()
        while self.context.evaluations == 0:
            time.sleep(0.001)
        return self

    def __exit__(self, *exception):
        self.context.abort()
        self.thread.join(60)


def test_abort_from_another_thread_stops_a_running_evaluation(open_context):
    context = open_context(ctx_tokens=8192, batch_rows=8000)
    with LongEvaluation(context) as evaluation:
        pass
    assert len(evaluation.errors) == 1
    context.clear_abort()
    assert context.length_tokens() == 0
    feed(context, [1])


def test_two_threads_never_share_a_context(open_context):
    context = open_context(ctx_tokens=8192, batch_rows=8000)
    operations = (lambda: feed(context, [1], start_pos=0), context.length_tokens, context.close, context.checkpoint)
    with LongEvaluation(context):
        for operation in operations:
            with pytest.raises(StateError) as caught:
                operation()
            assert caught.value.code == "state.busy"


def test_the_library_itself_refuses_a_second_thread(open_context):
    """Past the gate in Python stands the library's own, for callers that are not Python."""
    context, error = open_context(ctx_tokens=8192, batch_rows=8000), new_error()
    info = _raw.power_sequence_info(size=ctypes.sizeof(_raw.power_sequence_info))
    with LongEvaluation(context):
        status = context._functions.power_sequence_get(
            context._pointer("test"), 0, ctypes.byref(info), ctypes.byref(error)
        )
    assert status == _raw.POWER_BUSY
    assert b"in use" in error.text
