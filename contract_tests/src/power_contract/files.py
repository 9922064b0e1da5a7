"""Small tools for files with one fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeAlias

import attrs

from power_contract.subject import ArtifactCase
from power_core.artifacts import GgufHeader

BROKEN = "broken.gguf"


class Content(Protocol):
    """A file in the making (``power_core.testing.headers.GgufBytes`` and its like)."""

    def build(self) -> bytes:
        """Return the file."""
        ...


Fault: TypeAlias = tuple[str, str, Content]
"""Name of a case, id of the check that must fail, and the file."""


def header_cases(faults: Iterable[Fault]) -> tuple[ArtifactCase, ...]:
    """Return the faults as what ``ContractSubject.artifact_cases`` makes."""
    return tuple(
        ArtifactCase(name=name, build=written(content.build), check_id=check_id) for name, check_id, content in faults
    )


def written(content: Callable[[], bytes]) -> Callable[[Path], Path]:
    """Return a function that writes the content into a folder, as ``ArtifactCase.build`` wants it."""

    def build(folder: Path) -> Path:
        path = folder / BROKEN
        path.write_bytes(content())
        return path

    return build


def without_key(header: GgufHeader, key: str) -> GgufHeader:
    """Return the header as it is when the file lacks a key."""
    return attrs.evolve(
        header,
        metadata={name: value for name, value in header.metadata.items() if name != key},
        types={name: stored for name, stored in header.types.items() if name != key},
    )
