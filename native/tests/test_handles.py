"""Handles: dependants are freed first and once, closed and busy handles fail in Python."""

import gc
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.errors import NativeCallError, StateError
from power_native import _raw
from power_native._handles import NativeHandle, SharedHandle
from power_native._loader import Library


class World:
    """Counts what is freed, and offers functions whose behaviour a test sets."""

    def __init__(self):
        self.freed = []
        self.functions = SimpleNamespace(power_ok=lambda *arguments: 0)
        self.library = Library(path=Path("libfake.so"), functions=self.functions, info=None)

    def handle(self, name, *parents):
        return NativeHandle(name, self.library, name, self.freed.append, parents=parents)


@pytest.fixture
def world():
    return World()


def test_closing_a_parent_closes_its_children_first(world):
    model = world.handle("model")
    context = world.handle("context", model)
    sampler = world.handle("sampler", context)
    model.close()
    assert world.freed == ["sampler", "context", "model"]
    assert model.closed
    assert context.closed
    assert sampler.closed


def test_newest_children_go_first(world):
    model = world.handle("model")
    children = [world.handle(f"context{number}", model) for number in range(3)]
    model.close()
    assert world.freed == ["context2", "context1", "context0", "model"]
    assert all(child.closed for child in children)


def test_a_child_of_two_parents_is_freed_once(world):
    model, draft_model = world.handle("model"), world.handle("draft model")
    target = world.handle("target", model)
    draft = world.handle("draft", draft_model, target)
    model.close()
    assert world.freed == ["draft", "target", "model"]
    assert draft.closed
    draft_model.close()
    assert world.freed == ["draft", "target", "model", "draft model"]


def test_closing_twice_frees_once(world):
    handle = world.handle("model")
    handle.close()
    handle.close()
    assert world.freed == ["model"]


def test_context_manager_closes_also_on_error(world):
    with pytest.raises(KeyError), world.handle("model"):
        raise KeyError
    assert world.freed == ["model"]


@pytest.mark.parametrize("operation", ["_call", "_call_any_time", "_pointer"])
def test_closed_handle_fails_in_python(world, operation):
    entered = []
    world.functions.power_ok = lambda *arguments: entered.append(arguments) or 0
    handle = world.handle("context")
    handle.close()
    with pytest.raises(StateError, match="cannot run on the context: it is closed") as caught:
        getattr(handle, operation)("power_ok")
    assert caught.value.code == "state.closed"
    assert caught.value.operation == "power_ok"
    assert entered == []


def test_child_of_a_closed_parent_fails_in_python(world):
    model = world.handle("model")
    context = world.handle("context", model)
    model.close()
    with pytest.raises(StateError) as caught:
        context._call("power_ok")
    assert caught.value.code == "state.closed"


def test_dropping_the_last_reference_frees(world):
    handle = world.handle("model")
    del handle
    gc.collect()
    assert world.freed == ["model"]


def test_a_child_keeps_its_parent(world):
    context = world.handle("context", world.handle("model"))
    gc.collect()
    assert world.freed == []
    del context
    gc.collect()
    assert world.freed == ["context", "model"]


@given(order=st.permutations(["model", "context", "sampler"]))
def test_collected_cycle_frees_dependants_first(order):
    world = World()
    handles = {}
    handles["model"] = world.handle("model")
    handles["context"] = world.handle("context", handles["model"])
    handles["sampler"] = world.handle("sampler", handles["context"])
    for name in order:
        handles[name].cycle = handles
    del handles
    gc.collect()
    assert world.freed == ["sampler", "context", "model"]


def test_failed_call_carries_everything(world):
    def fail(pointer, error_ref):
        error = error_ref._obj
        error.text, error.log_tail = b"no such row", b"log line"
        return _raw.POWER_INVALID_ARGUMENT

    world.functions.power_argmax = fail
    with pytest.raises(NativeCallError) as caught:
        world.handle("context")._call("power_argmax")
    error = caught.value
    assert str(error) == "`power_argmax` failed with POWER_INVALID_ARGUMENT: no such row"
    assert (error.symbol, error.status, error.library) == ("power_argmax", 1, "libfake.so")
    assert "log line" in error.detail
    assert "log line" in error.__notes__[0]


class Blocker:
    """A call that stays inside the library until it is let go."""

    def __init__(self, handle):
        self.inside, self.leave = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=handle._call, args=("power_wait",))
        handle._functions.power_wait = self.wait

    def wait(self, *arguments):
        self.inside.set()
        self.leave.wait(10)
        return 0

    def __enter__(self):
        self.thread.start()
        assert self.inside.wait(10)

    def __exit__(self, *exception):
        self.leave.set()
        self.thread.join()


def test_second_thread_is_refused_at_once(world):
    handle = world.handle("context")
    with Blocker(handle), pytest.raises(StateError, match="another thread") as caught:
        handle._call("power_ok")
    assert caught.value.code == "state.busy"
    handle._call("power_ok")


def test_close_never_frees_under_a_running_call(world):
    model = world.handle("model")
    context = world.handle("context", model)
    sibling = world.handle("sibling", model)
    with Blocker(context):
        for handle in (context, model):
            with pytest.raises(StateError, match="cannot close") as caught:
                handle.close()
            assert caught.value.code == "state.busy"
        assert world.freed == []
        sibling._call("power_ok")
    model.close()
    assert world.freed == ["sibling", "context", "model"]


def test_call_that_raises_leaves_the_handle_usable(world):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    world.functions.power_interrupted = interrupt
    handle = world.handle("context")
    with pytest.raises(KeyboardInterrupt):
        handle._call("power_interrupted")
    handle._call("power_ok")


def test_any_time_calls_pass_a_running_call(world):
    seen = []
    world.functions.power_context_abort = seen.append
    handle = world.handle("context")
    with Blocker(handle):
        handle._call_any_time("power_context_abort")
    assert seen == ["context"]


def test_thousand_children_leave_nothing_behind(world):
    model = world.handle("model")
    for number in range(1000):
        world.handle(f"sampler{number}", model).close()
    assert model._resource._children == []
    assert len(world.freed) == 1000


def test_shared_handle_serves_two_threads_and_is_not_closed_under_them(world):
    model = SharedHandle("model", world.library, "model", world.freed.append)
    with Blocker(model):
        model._call("power_ok")
        with pytest.raises(StateError, match="cannot close"):
            model.close()
        model._call("power_ok")
    model.close()
    assert world.freed == ["model"]
    with pytest.raises(StateError) as caught:
        model._call("power_ok")
    assert caught.value.code == "state.closed"


@pytest.mark.parametrize("kind", [NativeHandle, SharedHandle])
def test_interrupt_behind_the_gate_does_not_lock_its_thread_out(world, kind):
    """As after a KeyboardInterrupt that struck between passing the gate and the call's ``try``."""
    handle = kind("context", world.library, "context", world.freed.append)
    handle._gate.enter(False)
    handle._call("power_ok")
    handle.close()
    assert world.freed == ["context"]
    with pytest.raises(StateError) as caught:
        handle._call("power_ok")
    assert caught.value.code == "state.closed"


def test_handle_closed_in_one_thread_is_closed_in_another(world):
    handle, codes = world.handle("context"), []
    handle.close()

    def use():
        try:
            handle._call("power_ok")
        except StateError as error:
            codes.append(error.code)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert codes == ["state.closed"]
