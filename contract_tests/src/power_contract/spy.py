"""Records every call on an object of a round and fails chosen ones; the object itself is never changed."""

from __future__ import annotations

from typing import Any, Literal

import attrs

When = Literal["before", "after"]

STEPS = {
    "target": ("checkpoint", "evaluate", "truncate", "restore", "clear"),
    "drafter": ("begin", "checkpoint", "propose", "process", "accept", "restore"),
    "sampler": ("begin", "snapshot", "sample", "restore"),
}
"""Calls that move state or mark it, by who takes them."""


class InjectedError(Exception):
    """A failure that nobody expects."""


@attrs.frozen
class Call:
    """One recorded call."""

    who: str
    name: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"{self.who}.{self.name}"


class Journal:
    """The calls of a bench in order, and at most one armed fault."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._fault: tuple[str, str, When] | None = None
        self._wait = 0
        self.struck = False

    def arm(self, who: str, name: str, *, when: When = "before", nth: int = 1) -> None:
        """Make the ``nth`` call of ``who.name`` from now on fail, before or after it was carried out."""
        self._fault, self._wait, self.struck = (who, name, when), nth, False

    def disarm(self) -> None:
        """Let everything work again."""
        self._fault = None

    def steps(self, since: int = 0) -> list[str]:
        """Return the calls that move or mark state, as ``who.name``."""
        return [str(call) for call in self.calls[since:] if call.name in STEPS.get(call.who, ())]

    def run(self, call: Call, action: Any) -> Any:
        """Record a call, carry it out, and fail where it was armed to fail."""
        self.calls.append(call)
        strikes = self._fault is not None and self._fault[:2] == (call.who, call.name)
        if strikes:
            self._wait -= 1
        if not strikes or self._wait != 0:
            return action(*call.arguments, **call.keywords)
        assert self._fault is not None
        when = self._fault[2]
        self._fault, self.struck = None, True
        if when == "after":
            action(*call.arguments, **call.keywords)
        raise InjectedError(f"{call} failed {when} it was carried out")


class Spy:
    """Stands for an object: every call on it is recorded, everything else is passed on."""

    def __init__(self, inner: Any, who: str, journal: Journal) -> None:
        self._inner = inner
        self._who = who
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value
        return lambda *arguments, **keywords: self._journal.run(Call(self._who, name, arguments, keywords), value)
