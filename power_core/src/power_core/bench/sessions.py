"""The sessions of a benchmark: all of them open together, or one at a time where memory does not hold them all.

Together, mapped weights are in memory once for all sessions. On a device each session has its own copy; there, in
turn is the way: every run then opens its session, warms it up, and closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TypeAlias

from power_core.bench.memory import private_bytes
from power_core.bench.plan import SessionMode, Variant
from power_core.bench.records import VariantRecord
from power_core.session import Session

Opener: TypeAlias = Callable[[Variant], Session]


class SessionPool:
    """Lends the session of a variant; a context manager that leaves nothing open.

    Attributes:
        records: What was opened, by the variant's name.
    """

    def __init__(self, variants: Sequence[Variant], open_variant: Opener, mode: SessionMode) -> None:
        self._variants = {variant.name: variant for variant in variants}
        self._open_variant = open_variant
        self._mode = mode
        self._resources = ExitStack()
        self._open: dict[str, Session] = {}
        self.records: dict[str, VariantRecord] = {}

    @property
    def fresh(self) -> bool:
        """True when every use opens a session of its own."""
        return self._mode == "in-turn"

    def __enter__(self) -> SessionPool:
        if not self.fresh:
            with self._resources as opening:
                for name in self._variants:
                    self._open[name] = opening.enter_context(self._opened(name))
                self._resources = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.clear()
        self._resources.close()

    @contextmanager
    def use(self, name: str) -> Iterator[Session]:
        """Lend the session of a variant."""
        if self.fresh:
            with self._opened(name) as session:
                yield session
        else:
            yield self._open[name]

    def _opened(self, name: str) -> Session:
        variant, before_bytes = self._variants[name], private_bytes()
        session = self._open_variant(variant)
        after_bytes = private_bytes()
        grown = None if before_bytes is None or after_bytes is None else after_bytes - before_bytes
        self.records.setdefault(name, _record(variant, session, grown))
        return session


def _record(variant: Variant, session: Session, opened_bytes: int | None) -> VariantRecord:
    plan = session.plan
    return VariantRecord(
        name=variant.name,
        strategy=plan.strategy,
        draft_max=plan.draft_max,
        scheduler=variant.settings.scheduler,
        guarantee=plan.guarantee,
        draft=plan.draft,
        settings=dict(plan.shown),
        events=tuple(dict(event) for event in plan.events),
        load_ns=plan.load_ns,
        opened_bytes=opened_bytes,
    )
