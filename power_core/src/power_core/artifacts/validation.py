"""What a validator says about a file: single checks, and the report that gathers them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import attrs

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.wording import shorten
from power_core.errors import ArtifactContractError, ArtifactError


@attrs.frozen(kw_only=True)
class Check:
    """One rule and whether the file keeps it.

    Attributes:
        id: Stable name, ``kind.rule``.
        passed: True when the rule holds.
        message: What was found, in one sentence.
        expected: What the rule asks for.
        actual: What the file holds.
    """

    id: str
    passed: bool
    message: str
    expected: object = None
    actual: object = None


@attrs.frozen(kw_only=True)
class ValidationReport:
    """All checks of one validator on one file, in the order in which they were made."""

    kind: str
    path: Path
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True when at least one check was made and every check passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    def raise_first(self) -> None:
        """Raise for the first failed check; return when there is none.

        Raises:
            ArtifactContractError: carries the check's id, what was expected and what was found.
        """
        if self.ok:
            return
        if not self.checks:
            raise ArtifactContractError(
                f"{self.path}: nothing was checked for kind {self.kind!r}",
                path=str(self.path),
                check_id=f"{self.kind}.no_checks",
                hint="the validator has to return at least one check",
            )
        first, *others = self.failures
        more = f" ({len(others)} more failed: {', '.join(check.id for check in others)})" if others else ""
        raise ArtifactContractError(
            shorten(f"{self.path} is not a valid {self.kind}: {first.message}{more}"),
            path=str(self.path),
            check_id=first.id,
            expected=first.expected,
            actual=first.actual,
            hint="`power inspect FILE` lists every check",
        )


class CheckList:
    """Collects checks while a validator runs; ``prefix`` starts every id."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._checks: list[Check] = []

    def add(self, name: str, passed: bool, message: str, *, expected: object = None, actual: object = None) -> bool:
        """Record one check and return whether it passed."""
        self._checks.append(
            Check(
                id=f"{self._prefix}.{name}",
                passed=passed,
                message=shorten(message),
                expected=expected,
                actual=actual,
            )
        )
        return passed

    def add_error(self, name: str, error: ArtifactError, path: Path) -> None:
        """Record what reading ``path`` raised as a failed check; its message does not repeat the path before it."""
        message = str(error).removeprefix(f"{path}: ")
        self.add(name, False, message, expected=error.expected, actual=error.actual)

    def report(self, kind: str, path: Path) -> ValidationReport:
        """Close the list."""
        return ValidationReport(kind=kind, path=path, checks=tuple(self._checks))


@runtime_checkable
class ArtifactValidator(Protocol):
    """Knows one kind of file. Plugins register validators; none of them loads a model."""

    @property
    def kind(self) -> str:
        """Name of the kind, for instance ``mtp-target``."""
        ...

    @property
    def describe(self) -> str:
        """One sentence: what the file is for."""
        ...

    def matches(self, header: GgufHeader) -> bool:
        """True when the file claims to be of this kind; says nothing on whether it is valid."""
        ...

    def validate(self, header: GgufHeader) -> ValidationReport:
        """Check the header against the kind's contract. Never raises for what the file holds."""
        ...


@runtime_checkable
class DraftValidator(ArtifactValidator, Protocol):
    """A validator of external drafts: its ``kind`` is the name of the strategy that reads them."""

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        """Check a valid draft against the target it is meant for. Never raises for what the files hold.

        Tokenizers are compared by the core, for every kind.
        """
        ...
