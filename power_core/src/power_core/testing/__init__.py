"""Public test material: deterministic fakes, tiny random-weight models, and GGUF headers with one fault each.

- ``fakes``      a target, its memory and a drafter without weights, with faults that can be scripted
- ``models``     real GGUF files of a few megabytes; ``tokenizer`` is the vocabulary they carry
- ``drafts``     block drafts for them
- ``samplings``  sampling settings in which every sampler occurs; ``scripted`` sessions with drafters that are wrong on
  purpose; ``table_target`` and ``statistics`` for whether their tokens follow the target's distribution
- ``headers``    builds GGUF bytes, right or wrong, for tests of whatever reads them
"""

from __future__ import annotations

from power_core.testing.drafts import build_tiny_draft
from power_core.testing.headers import GgufBytes
from power_core.testing.models import build_tiny_target, default_target_path

__all__ = ["GgufBytes", "build_tiny_draft", "build_tiny_target", "default_target_path"]
