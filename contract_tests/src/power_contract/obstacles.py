"""What keeps a run from judging anything: a backend that does not open, files that cannot be built."""

from __future__ import annotations

from collections.abc import Callable

from power_contract.loading import load_subject
from power_contract.materials import materials
from power_contract.subject import ContractSubject
from power_core.errors import PowerError


def find_obstacle(subject: ContractSubject) -> str | None:
    """Build and open the subject's tiny models; return in a sentence why one cannot be had, None when all can.

    A plugin that does not load is no obstacle: clause INFO-01 says so, and blocks the others.
    """
    if load_subject(subject).error is not None:
        return None
    for kind in subject.target_kinds:
        for what, action in _steps(subject, kind):
            try:
                action()
            except Exception as error:  # noqa: BLE001 - whatever it is, it stands in the report
                return f"{what}: {_told(error)}"
    return None


def _steps(subject: ContractSubject, kind: str) -> tuple[tuple[str, Callable[[], object]], ...]:
    return (
        (f"the tiny {kind} target cannot be built", lambda: materials().target(kind)),
        (
            f"build_draft of the subject makes no draft for the tiny {kind} target",
            lambda: materials().draft_header(subject, kind),
        ),
        (
            f"the tiny {kind} target cannot be opened",
            lambda: materials().model(subject, kind, load_nextn=False),
        ),
    )


def _told(error: Exception) -> str:
    if not isinstance(error, PowerError):
        return f"{type(error).__name__}: {error}"
    return f"{error}; {error.hint}" if error.hint else str(error)
