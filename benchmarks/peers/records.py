"""What the runs gave, and the file that keeps it; every figure of the report follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import cattrs

from power_core.whole_file import whole_file

POWER = "power"


@attrs.frozen(kw_only=True)
class Sample:
    """One measured answer.

    Attributes:
        subject: Who answered.
        prompt: Name of the prompt.
        repeat: Number of the pass, from 0.
        place: Place in the order of its turn.
        tokens: Emitted tokens.
        decode_ns: See ``Answer``.
        total_ns: See ``Answer``.
        output_sha256: Digest of the token ids.
        first_difference: Index of the first token that the contest's first subject, on the same prompt in the same
            turn, had otherwise; None when there is none.
    """

    subject: str
    prompt: str
    repeat: int
    place: int
    tokens: int
    decode_ns: int
    total_ns: int
    drafted_tokens: int
    accepted_tokens: int
    output_sha256: str
    first_difference: int | None


@attrs.frozen(kw_only=True)
class SubjectRecord:
    """One of a contest.

    Attributes:
        name: Unlike every other one in its contest.
        side: ``power`` or the peer; of a peer's several the best one counts.
        division: Power's subjects meet peers of their own division, its first one every peer; empty for what an
            engine does by default.
        strategy: The engine's own name of what it does.
        draft_max: K; None for the strategy's own, and for plain decoding.
        goal: What the ratio of Power to this one has to reach; None when it is shown only.
        facts: What the engine said when it was opened.
    """

    name: str
    side: str
    division: str
    strategy: str
    draft_max: int | None
    goal: float | None
    facts: dict[str, str]


@attrs.frozen(kw_only=True)
class ContestRecord:
    """A finished contest.

    Attributes:
        name: For tables.
        model: File name of the target.
        model_sha256: Its digest.
        prompts_sha256: Digest of all prompts' token ids.
        prompts: Number of prompts of a whole pass.
        max_tokens: Tokens of every answer.
        subjects: Power's first one is the reference of outputs.
    """

    name: str
    model: str
    model_sha256: str
    prompts_sha256: str
    prompts: int
    max_tokens: int
    subjects: tuple[SubjectRecord, ...]
    samples: tuple[Sample, ...]

    def side(self, name: str) -> tuple[SubjectRecord, ...]:
        """The subjects of one side."""
        return tuple(subject for subject in self.subjects if subject.side == name)

    @property
    def peers(self) -> tuple[str, ...]:
        """Sides that are not Power's, in their order."""
        return tuple(dict.fromkeys(subject.side for subject in self.subjects if subject.side != POWER))


@attrs.frozen(kw_only=True)
class PeersRecord:
    """One run of the benchmark.

    Attributes:
        environment: Machine, versions and load, as a report of ``power bench`` has them.
    """

    recorded_at: str
    threads: int
    batch_tokens: int
    environment: dict[str, Any]
    contests: tuple[ContestRecord, ...]


def write_record(record: PeersRecord, path: Path) -> None:
    """Replace the file at once; a sample takes one line."""
    values = attrs.asdict(record)
    for contest in values["contests"]:
        contest["samples"] = [json.dumps(sample) for sample in contest["samples"]]
    text = json.dumps(values, indent=1)
    for contest in values["contests"]:
        for line in contest["samples"]:
            text = text.replace(json.dumps(line), line, 1)
    with whole_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def read_record(path: Path) -> PeersRecord:
    """Read what ``write_record`` wrote."""
    return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), PeersRecord)
