"""What the contract kit needs to know; imported by the kit alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from power_contract.subject import ArtifactCase, ContractSubject
from power_core.artifacts import scan_header
from power_core.testing import build_tiny_target
from power_core.testing.tiny_weights import TargetKind
from power_rowlookup.table import BITS_KEY, HIDDEN_KEY, LAYER_KEY, random_directions, write_table

BITS, HIDDEN = 6, 256
SHAPE = (2**BITS, 4)


def build(path: Path, kind: TargetKind = "attention", bits: int = BITS, shape: tuple[int, ...] = SHAPE) -> Path:
    """Write a table of random tokens for a tiny target, which is built beside it."""
    target = scan_header(build_tiny_target(path.with_name(f"target-{kind}.gguf"), kind=kind))
    following = np.random.default_rng(1).integers(0, 500, shape).astype(np.int32)
    return write_table(path, target, 1, random_directions(bits, HIDDEN), following)


def build_draft(folder: Path, kind: TargetKind) -> Path:
    """Write the file that the histories run with."""
    return build(folder / f"rowlookup-{kind}.gguf", kind)


def artifact_cases() -> tuple[ArtifactCase, ...]:
    """Return files with one fault each."""

    def case(name: str, check: str, write: Callable[[Path], Path]) -> ArtifactCase:
        return ArtifactCase(name=name, build=lambda folder: write(folder / "broken.gguf"), check_id=check)

    return (
        case("code-too-wide", "rowlookup.code_bits", lambda path: build(path, bits=17)),
        case("codes-without-a-row", "rowlookup.tensor", lambda path: build(path, bits=BITS + 1)),
        case("flat-table", "rowlookup.following", lambda path: build(path, shape=(2**BITS * 4,))),
    )


SUBJECT = ContractSubject(
    name="power-rowlookup",
    strategy="rowlookup",
    plugin="power_rowlookup.plugin",
    features=frozenset({"model-backed", "draft-file", "taps", "mutable-memory"}),
    target_kinds=("hybrid", "attention", "sliding-window"),
    build_draft=build_draft,
    artifact_cases=artifact_cases,
    layout_keys=(HIDDEN_KEY, LAYER_KEY, BITS_KEY),
)
