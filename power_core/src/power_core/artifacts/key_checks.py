"""Reads the keys of one architecture for a validator: each problem becomes a failed check, never an exception."""

from __future__ import annotations

import math

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.validation import CheckList
from power_core.artifacts.values import INTEGER_TYPES, ValueType
from power_core.errors import ArtifactContractError


class ArchitectureKeys:
    """Typed access to ``<architecture>.*``. Methods return None after they have recorded a failed check.

    The native library takes single integers as UINT32 and nothing else, so that is what is asked for here.
    """

    def __init__(self, header: GgufHeader, architecture: str, checks: CheckList) -> None:
        self.header = header
        self.architecture = architecture
        self.checks = checks

    def name(self, suffix: str) -> str:
        """Return the full key."""
        return f"{self.architecture}.{suffix}"

    def has(self, suffix: str) -> bool:
        """True when the key exists."""
        return self.name(suffix) in self.header.metadata

    def required(self, suffix: str, maximum: int, *, minimum: int = 1) -> int | None:
        """Read an integer that must exist and lie in ``minimum``..``maximum``."""
        return self._bounded(suffix, self._unsigned(suffix), minimum, maximum)

    def optional(self, suffix: str, *, minimum: int = 1, maximum: int = 2**31 - 1) -> int | None:
        """Read an integer that must lie in ``minimum``..``maximum`` when it exists; None when it does not."""
        return self._bounded(suffix, self._unsigned(suffix), minimum, maximum) if self.has(suffix) else None

    def per_block(self, suffix: str, blocks: int | None, *, required: bool) -> tuple[int, ...] | None:
        """Read a key that holds one integer, or one per block."""
        if not self.has(suffix) and not required:
            return None
        key = self.name(suffix)
        values = self.header.get(key)
        if not isinstance(values, tuple):
            value = self._unsigned(suffix)
            return None if value is None else (value,)
        counts = [value for value in values if isinstance(value, int) and value >= 0]
        integers = self.header.element_type(key) in INTEGER_TYPES
        passed = self.checks.add(
            suffix,
            integers and len(counts) == len(values) == blocks,
            f"{key} has {len(values)} elements",
            expected=f"{blocks} integers, none negative",
            actual=len(values),
        )
        return tuple(counts) if passed else None

    def check_float(self, suffix: str, *, minimum: float, above: bool = False, required: bool = False) -> None:
        """Check that a number, if it exists or has to, is a finite FLOAT32 of at least (or above) ``minimum``."""
        if not self.has(suffix) and not required:
            return
        try:
            value: float = self.header.require(self.name(suffix), ValueType.FLOAT32)
        except ArtifactContractError as error:
            self.checks.add_error(suffix, error, self.header.path)
            return
        self.checks.add(
            suffix,
            math.isfinite(value) and (value > minimum if above else value >= minimum),
            f"{self.name(suffix)} is {value}",
            expected=f"finite, {'above' if above else 'at least'} {minimum}",
            actual=value,
        )

    def flag(self, suffix: str) -> bool | None:
        """Read a BOOL that must exist."""
        try:
            value: bool = self.header.require(self.name(suffix), ValueType.BOOL)
        except ArtifactContractError as error:
            self.checks.add_error(suffix, error, self.header.path)
            return None
        self.checks.add(suffix, True, f"{self.name(suffix)} is {value}", actual=value)
        return value

    def _bounded(self, suffix: str, value: int | None, minimum: int, maximum: int) -> int | None:
        if value is None:
            return None
        passed = self.checks.add(
            suffix,
            minimum <= value <= maximum,
            f"{self.name(suffix)} is {value}",
            expected=f"{minimum} to {maximum}",
            actual=value,
        )
        return value if passed else None

    def _unsigned(self, suffix: str) -> int | None:
        try:
            value: int = self.header.require(self.name(suffix), ValueType.UINT32)
        except ArtifactContractError as error:
            self.checks.add_error(suffix, error, self.header.path)
            return None
        return value
