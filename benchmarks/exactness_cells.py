"""Cells of the exactness matrix: what is decoded, by which drafter, under which arithmetic, and how it is compared."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from requantised import gemma, requantised

from power_core import GenerationResult, open_session
from power_core.cache_dir import cache_subdir
from power_core.testing.parity import Truth, forced_session
from power_core.testing.real_drafts import build_real_draft

PROMPTS = Path(__file__).with_name("prompts") / "mixed.json"
CTX_TOKENS = 3072
NARROW = {"draft_max": 7}
WIDE = {"draft_max": 15, "verify_rows": 16, "snapshots": 15}
SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {},
    "seeded": {"temperature": 0.8, "top_k": 40, "top_p": 0.95},
}
BLOCK_KINDS = ("dspark", "dflash2", "dflash")


@attrs.frozen(kw_only=True)
class Drafter:
    """One way of drafting.

    Attributes:
        name: As it is shown.
        spec: Strategy.
        draft: External draft.
        forced: Its proposals are replaced by ones that are right for a random number of tokens, after it has run.
        settings: Of the session.
    """

    name: str
    spec: str
    draft: Path | None = None
    forced: bool = False
    settings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Group:
    """Cells that share a reference: one target with one set of settings."""

    target: str
    weights: str
    arithmetic: str
    threads: int
    sampling: str

    @property
    def name(self) -> str:
        return f"{self.target} {self.weights}, {self.arithmetic}, {self.threads} threads, {self.sampling}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"ctx": CTX_TOKENS, "batch": 512, "threads": self.threads, "arithmetic": self.arithmetic}


class Models:
    """Files of the targets and of their drafters, built at first use."""

    def __init__(self, zoo: Path | None, folder: Path) -> None:
        self._zoo = zoo
        self._folder = folder

    @property
    def targets(self) -> dict[str, tuple[str, ...]]:
        """Names of the targets with their weight types, the most telling first."""
        zoo = {} if self._zoo is None else {"zoo": ("F16", "Q8_0", "Q4_0")}
        return {"gemma-3-270m": ("Q4_K_M", "Q8_0", "Q4_0"), **zoo}

    def target(self, name: str, weights: str) -> Path:
        """Return the file of a target with a weight type."""
        own = {"gemma-3-270m": "Q4_K_M", "zoo": "F16"}[name]
        path = gemma() if name == "gemma-3-270m" else self._zoo_folder() / "target" / "target.gguf"
        return path if weights == own else requantised(path, weights)

    def drafters(self, name: str) -> Iterator[Drafter]:
        """Yield every way of drafting for a target; random-weight drafts run with forced acceptance."""
        yield Drafter(name="scripted", spec="scripted", forced=True, settings=NARROW)
        yield Drafter(name="scripted, 16 rows a slice", spec="scripted", forced=True, settings=WIDE)
        yield Drafter(name="prompt-lookup", spec="prompt-lookup")
        if name == "zoo":
            yield Drafter(name="mtp", spec="mtp")
        for kind in BLOCK_KINDS:
            if name == "zoo":
                yield Drafter(name=kind, spec=kind, draft=self._zoo_draft(kind))
            else:
                draft = self._gemma_draft(kind)
                yield Drafter(name=f"{kind}, random weights", spec=kind, draft=draft, forced=True, settings=NARROW)

    def _zoo_folder(self) -> Path:
        assert self._zoo is not None
        return self._zoo

    def _zoo_draft(self, kind: str) -> Path:
        """Return a copy without the manifest, which vouches for the target's own weights alone."""
        copy = self._folder / f"{kind}.gguf"
        if not copy.is_file():
            shutil.copyfile(self._zoo_folder() / "drafts" / f"{kind}.gguf", copy)
        return copy

    def _gemma_draft(self, kind: Any) -> Path:
        path = cache_subdir("random-drafts") / f"gemma-3-270m-{kind}.gguf"
        if not path.is_file():
            build_real_draft(path, kind=kind, target=gemma(), mask_token="<mask>")
        return path


def load_prompts(count: int) -> list[str]:
    """Return the first prompts of the list, which are a sample of all of it."""
    return [prompt["text"] for prompt in json.loads(PROMPTS.read_text(encoding="utf-8"))][:count]


def prompts_digest() -> str:
    """Return the SHA-256 of the prompts' file."""
    return hashlib.sha256(PROMPTS.read_bytes()).hexdigest()


def sampling_of(group: Group, prompt_index: int) -> dict[str, Any]:
    """Return the request's sampling; every prompt has a seed of its own."""
    settings = SAMPLING[group.sampling]
    return {**settings, "seed": 1000 + prompt_index} if settings else {}


@attrs.frozen(kw_only=True)
class Reference:
    """Plain decoding of one prompt."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    finish_reason: str | None


def reference(group: Group, model: Path, prompts: Mapping[int, str], max_tokens: int) -> dict[int, Reference]:
    """Decode the prompts plainly with the group's settings, in this process."""
    found = {}
    with open_session(model=model, spec="off", **group.settings) as session:
        for index, text in prompts.items():
            tokens = session.model.vocabulary.tokenize(text)
            result = session.generate(tokens, max_tokens=max_tokens, **sampling_of(group, index)).result()
            found[index] = Reference(
                prompt=tuple(tokens), tokens=tuple(result.tokens), finish_reason=result.finish_reason
            )
    return found


def run_cell(
    group: Group, drafter: Drafter, model: Path, references: Mapping[int, Reference], max_tokens: int
) -> dict[str, dict[str, Any]]:
    """Decode every prompt with the drafter; return its outcome by the prompt's number."""
    truth: Truth = {known.prompt: list(known.tokens) for known in references.values()}
    settings = {**group.settings, **drafter.settings, "draft": drafter.draft}
    forced = "partial" if drafter.forced else None
    seed = random.Random(group.name).randrange(2**31)
    outcomes = {}
    with forced_session(model, truth, forced, drafter.spec, seed, **settings) as session:
        for index, known in references.items():
            request = session.generate(list(known.prompt), max_tokens=max_tokens, **sampling_of(group, index))
            outcomes[str(index)] = _outcome(known, request.result())
    return outcomes


def _outcome(known: Reference, result: GenerationResult) -> dict[str, Any]:
    difference = first_difference(known.tokens, result.tokens)
    if difference is None and known.finish_reason != result.finish_reason:
        difference = len(known.tokens)
    report = result.report
    return {
        "first_difference": difference,
        "tokens": len(known.tokens),
        "end": len(known.prompt) + len(known.tokens),
        "drafted": report.drafted_tokens,
        "accepted": report.accepted_tokens,
        "rounds": report.rounds,
        "guarded_rows": report.guarded_rows,
        "guarantee": report.guarantee,
    }


def first_difference(expected: Sequence[int], found: Sequence[int]) -> int | None:
    """Return the first position at which the outputs differ, a missing token included; None for equal ones."""
    for position, (left, right) in enumerate(itertools.zip_longest(expected, found)):
        if left != right:
            return position
    return None
