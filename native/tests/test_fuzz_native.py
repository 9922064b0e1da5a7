"""What the checks accept never ends the process: broken files are opened and decoded in child processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_mutations import broken_parts
from file_parts import Parts, take_apart
from fuzz_hunt import Hunt
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from power_core.testing.drafts import build_tiny_draft
from power_core.testing.models import build_tiny_target

pytestmark = pytest.mark.native

EXPLORE = int(os.environ.get("POWER_FUZZ_EXAMPLES", "0"))
TARGETS, DRAFTS = ("hybrid", "attention", "sliding-window"), ("dflash", "dspark", "dflash2")


def sound_targets(folder: Path) -> list[Path]:
    return [build_tiny_target(folder / f"{kind}.gguf", kind=kind, hidden=128, dtype="Q8_0") for kind in TARGETS]


def sound_drafts(folder: Path) -> list[Path]:
    plain = [build_tiny_draft(folder / f"{kind}.gguf", kind=kind, hidden=128, dtype="Q8_0") for kind in DRAFTS]
    reduced = [
        build_tiny_draft(
            folder / f"{kind}-reduced.gguf",
            kind=kind,
            hidden=128,
            own_embeddings=True,
            draft_vocabulary_tokens=128,
            window_tokens=16,
        )
        for kind in DRAFTS
    ]
    return [*plain, *reduced]


def hunt(files: list[Path], quarry: Hunt, examples: int) -> None:
    """Break files ``examples`` times; the accepted ones have to be used without harm."""
    parts = [take_apart(path.read_bytes()) for path in files]

    @settings(
        max_examples=EXPLORE or examples,
        derandomize=not EXPLORE,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(sound=st.sampled_from(parts), data=st.data())
    def gather(sound: Parts, data: st.DataObject) -> None:
        quarry.add(sound, data.draw(broken_parts(sound, mutations=2)))

    for whole in parts:
        quarry.add(whole, whole)
    gather()
    quarry.finish()
    assert quarry.outcomes["ok"] >= len(files), quarry.outcomes
    assert not quarry.failures, "\n\n".join([str(quarry.outcomes), *quarry.failures])


@pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=pytest.mark.full)])
def test_accepted_targets_are_harmless(tmp_path: Path, examples: int) -> None:
    hunt(sound_targets(tmp_path), Hunt(tmp_path), examples)


@pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=pytest.mark.full)])
def test_accepted_drafts_are_harmless(tmp_path: Path, examples: int) -> None:
    target, *_ = sound_targets(tmp_path)
    quarry = Hunt(tmp_path, target)
    hunt(sound_drafts(tmp_path), quarry, examples)
    assert not quarry.outcomes["native.model_load"], "the checks accepted a draft that the library refuses"
