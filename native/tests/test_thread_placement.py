"""Threads of wide evaluations, processors of the compute threads: granted, refused, and no effect on the bits."""

import ctypes
import os

import numpy as np
import pytest

from power_core.errors import NativeCallError
from power_core.target import ContextSettings
from power_core.tokens import SequenceRows
from power_native import _raw
from power_native._loader import library

pytestmark = pytest.mark.native

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]


def logits_of_a_block(model, **settings):
    context = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=16, snapshots=0, **settings))
    try:
        context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
        return np.array([context.logits(row).copy() for row in range(len(TOKENS))])
    finally:
        context.close()


@pytest.mark.parametrize("kind", ["attention", "hybrid"])
def test_the_number_of_threads_changes_no_bit_under_exact_arithmetic(models, kind):
    one = logits_of_a_block(models[kind], threads=1)
    for threads, rows_threads in ((2, 0), (1, 2), (2, 1), (2, 3)):
        assert np.array_equal(one, logits_of_a_block(models[kind], threads=threads, rows_threads=rows_threads))


def test_the_threads_are_read_back(models):
    context = models["attention"].open_context(ContextSettings(ctx_tokens=64, threads=2, rows_threads=3))
    assert (context.threads, context.rows_threads) == (2, 3)
    context.close()
    context = models["attention"].open_context(ContextSettings(ctx_tokens=64, threads=2))
    assert context.rows_threads == 2
    context.close()


def test_compute_threads_stay_on_the_processors_that_were_chosen(models):
    before = os.sched_getaffinity(0)
    chosen = min(before)
    try:
        bound = logits_of_a_block(models["attention"], threads=2, processors=(chosen,))
        assert os.sched_getaffinity(0) == {chosen}  # the calling thread computes as well
    finally:
        os.sched_setaffinity(0, before)
    assert np.array_equal(bound, logits_of_a_block(models["attention"], threads=2))


def test_a_processor_beyond_the_librarys_mask_is_refused(models):
    processors = (ctypes.c_uint32 * 1)(4096)
    parameters = _raw.power_context_params(
        size=ctypes.sizeof(_raw.power_context_params),
        ctx_tokens=64,
        batch_rows=8,
        sequences=1,
        causal=1,
        processors=ctypes.cast(processors, ctypes.POINTER(ctypes.c_uint32)),
        processor_count=1,
    )
    model = models["attention"]._pointer("power_context_open")
    with pytest.raises(NativeCallError, match="`processors` has 4096"):
        library().open_handle("power_context_open", model, ctypes.byref(parameters))
