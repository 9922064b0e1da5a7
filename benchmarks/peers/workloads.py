"""Targets with the prompts that they continue, tokenised once so that everybody gets the same ids."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import power_zoo
from requantised import gemma

from peers.runner import TokenPrompt
from power_core import open_session

BENCHMARKS = Path(__file__).resolve().parents[1]
CODE = BENCHMARKS.parent / "examples" / "zoo" / "prompts.json"
MIXED = BENCHMARKS / "prompts" / "mixed.json"

GEMMA_WEIGHT = 3.0

WorkloadName: TypeAlias = Literal["zoo", "zoo mixed", "gemma"]


@attrs.frozen(kw_only=True)
class Workload:
    """What a contest is about.

    Attributes:
        warmup: A prompt that is not among the measured ones.
        max_tokens: Tokens of every answer.
        ctx_tokens: Context that every engine opens.
        weight: See ``Contest``; a pass of the larger model takes longer.
    """

    model: Path
    sha256: str
    prompts: tuple[TokenPrompt, ...]
    warmup: TokenPrompt
    max_tokens: int
    ctx_tokens: int
    weight: float = 1.0


def read_workload(name: WorkloadName, *, count: int, max_tokens: int) -> Workload:
    """Return the first ``count`` prompts of a workload; the last one of its file is kept for warming up."""
    model = gemma() if name == "gemma" else power_zoo.target_path()
    texts = [entry["text"] for entry in json.loads((CODE if name == "zoo" else MIXED).read_text(encoding="utf-8"))]
    ctx_tokens = 1024 if name == "zoo" else 2048
    with open_session(model=model, spec="off", ctx=ctx_tokens, threads=1) as session:
        prompts = [
            TokenPrompt(name=str(number), tokens=tuple(session.model.vocabulary.tokenize(text)))
            for number, text in enumerate(texts)
        ]
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Workload(
        model=model,
        sha256=digest,
        prompts=tuple(prompts[:-1][:count]),
        warmup=prompts[-1],
        max_tokens=max_tokens,
        ctx_tokens=ctx_tokens,
        weight=GEMMA_WEIGHT if name == "gemma" else 1.0,
    )
