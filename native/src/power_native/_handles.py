"""Ownership of native objects: who frees what, in which order, and what happens to a call on a closed one.

A ``Resource`` owns one native pointer and knows the resources that must be freed before it. A ``NativeHandle`` is the
Python object around it: it keeps its parents alive, is a context manager, and has a ``weakref.finalize`` as second net.
Every call on a handle goes through its gate, so that ``close`` never frees what another thread is using. The gate of
most handles admits one call: a second thread is refused at once instead of queueing, and the handle's buffers are never
shared by two calls. The gate of a ``SharedHandle`` admits any number.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from ctypes import byref
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias

from power_core.errors import StateError
from power_native._loader import Library
from power_native._status import error_for, new_error

Pointer: TypeAlias = Any
Free: TypeAlias = Callable[[Pointer], None]

# Guards the tree of resources. Reentrant: a garbage collection may run a finalizer while it is held.
_TREE = threading.RLock()


class ExclusiveGate:
    """Admits one thread at a time; shut for good by ``shut``.

    Ownership is by thread, since an interrupt may strike after ``enter`` and before the ``try`` that would undo it: the
    interrupted thread can still use and close its handle then.
    """

    def __init__(self) -> None:
        lock = threading.RLock()
        self.enter = lock.acquire
        self.leave = lock.release

    def shut(self) -> bool:
        """Let no other thread in; False, and nothing changed, while another thread is inside."""
        return self.enter(False)

    def reopen(self) -> None:
        """Undo ``shut``."""
        self.leave()


class SharedGate:
    """Admits any number of threads; shut for good by ``shut``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[int] = []
        self._shut = False

    def enter(self, _blocking: bool = False) -> bool:
        """Begin a call; False once shut. Never waits for a call."""
        with self._lock:
            if not self._shut:
                self._inside.append(threading.get_ident())
            return not self._shut

    def leave(self) -> None:
        """End a call."""
        with self._lock:
            self._inside.remove(threading.get_ident())

    def shut(self) -> bool:
        """Let no further call in; False, and nothing changed, while another thread is inside."""
        with self._lock:
            self._shut = all(thread == threading.get_ident() for thread in self._inside)
            return self._shut

    def reopen(self) -> None:
        """Undo ``shut``."""
        with self._lock:
            self._shut = False


class Resource:
    """One native pointer, the resources that depend on it, and the gate that calls on it pass."""

    def __init__(
        self, pointer: Pointer, free: Free, gate: ExclusiveGate | SharedGate, parents: tuple[Resource, ...] = ()
    ) -> None:
        self.pointer: Pointer | None = pointer
        self.gate = gate
        self._free = free
        self._parents = parents
        self._children: list[Resource] = []
        with _TREE:
            for parent in parents:
                parent._children.append(self)

    def release(self) -> bool:
        """Free this resource and its dependants, dependants first. False, nothing freed, while any is in a call.

        The gates of freed resources stay shut, so that no later call can pass them.
        """
        with _TREE:
            if self.pointer is None:
                return True
            members = list(dict.fromkeys(self._dependants_first()))
            for position, member in enumerate(members):
                if not member.gate.shut():
                    for other in members[:position]:
                        other.gate.reopen()
                    return False
            for member in members:
                member._free_now()
            return True

    def _dependants_first(self) -> Iterator[Resource]:
        for child in reversed(self._children):
            yield from child._dependants_first()
        yield self

    def _free_now(self) -> None:
        pointer, self.pointer = self.pointer, None
        for parent in self._parents:
            parent._children.remove(self)
        self._free(pointer)


class NativeHandle:
    """A native object owned by Python.

    ``close`` frees it after its dependants; afterwards every operation raises ``StateError`` with code
    ``state.closed``. Closing twice is allowed. An operation that runs in one thread makes every operation of another
    thread on the same handle raise ``StateError`` with code ``state.busy``.
    """

    _gate_type: type[ExclusiveGate] | type[SharedGate] = ExclusiveGate

    def __init__(
        self, kind: str, library: Library, pointer: Pointer, free: Free, *, parents: tuple[NativeHandle, ...] = ()
    ) -> None:
        self._kind = kind
        self._library = library
        self._functions = library.functions
        self._parents = parents
        self._error = new_error()
        self._error_ref = byref(self._error)
        self._gate = self._gate_type()
        resources = tuple(parent._resource for parent in parents)
        self._resource: Resource = Resource(pointer, free, self._gate, resources)
        self._finalizer = weakref.finalize(self, self._resource.release)

    @property
    def closed(self) -> bool:
        """True after ``close``, also when a parent's ``close`` did it."""
        return self._resource.pointer is None

    def close(self) -> None:
        """Free the native object, dependants first; safe to call twice.

        Raises:
            StateError: another thread is inside an operation of this handle or of a dependant (``state.busy``).
        """
        if not self._resource.release():
            raise StateError(
                f"cannot close the {self._kind}: another thread is inside one of its operations",
                state="busy",
                operation="close",
                hint="call `abort` on the context and wait for the other thread before closing",
                code="state.busy",
            )
        self._finalizer.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, symbol: str, *arguments: object) -> None:
        """Call ``symbol(pointer, *arguments, err)`` under the gate; raise the typed error of a failure."""
        if not self._gate.enter(False):
            self._refuse(symbol)
        try:
            self._call_held(symbol, *arguments)
        finally:
            self._gate.leave()

    def _call_held(self, symbol: str, *arguments: object) -> None:
        """As ``_call``, for a caller that has passed the gate already."""
        status = getattr(self._functions, symbol)(self._pointer(symbol), *arguments, self._error_ref)
        if status:
            raise error_for(symbol, status, self._error, self._library.path)

    def _call_any_time(self, symbol: str, *arguments: object) -> None:
        """Call a function without status that is allowed while another thread is inside an operation."""
        with _TREE:
            getattr(self._functions, symbol)(self._pointer(symbol), *arguments)

    def _pointer(self, operation: str) -> Pointer:
        """The native pointer, to be passed as another call's argument; raises when closed."""
        pointer = self._resource.pointer
        if pointer is None:
            self._refuse(operation)
        return pointer

    def _refuse(self, operation: str) -> NoReturn:
        closed = self.closed
        state = "closed" if closed else "busy"
        reason = "it is closed" if closed else "another thread is inside one of its operations"
        raise StateError(
            f"`{operation}` cannot run on the {self._kind}: {reason}",
            state=state,
            operation=operation,
            hint="open a new one" if closed else "use a context from one thread at a time",
            code=f"state.{state}",
        )


class SharedHandle(NativeHandle):
    """A native object that only answers questions: any number of threads may use it at once."""

    _gate_type = SharedGate

    def _call_held(self, symbol: str, *arguments: object) -> None:
        self._library.call(symbol, self._pointer(symbol), *arguments)
