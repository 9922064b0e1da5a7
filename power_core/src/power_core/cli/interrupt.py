"""Ctrl-C that reaches a running native call.

Python runs signal handlers between its own instructions, so a long call into the library would delay them. The
interpreter does write the signal's number to a wake-up descriptor at once; a thread reads it and cancels.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_END = b"\0"


@contextmanager
def cancel_on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C call ``cancel`` from another thread; a second one raises ``KeyboardInterrupt``.

    The block runs as it is where Ctrl-C is ignored, and outside the main thread, where signals cannot be handled.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    watcher = threading.Thread(target=_watch, args=(receiver, cancel), name="power-interrupt", daemon=True)
    watcher.start()
    old_descriptor = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    old_handler = signal.signal(signal.SIGINT, _second_raises())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old_handler)
        signal.set_wakeup_fd(old_descriptor)
        sender.send(_END)
        watcher.join()
        sender.close()
        receiver.close()


def _watch(receiver: socket.socket, cancel: Callable[[], None]) -> None:
    while (received := receiver.recv(1)) not in (_END, b""):
        if received[0] == signal.SIGINT:
            cancel()


def _second_raises() -> Callable[[int, FrameType | None], None]:
    interrupts = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt

    return handler
