"""What a request did, with the definitions of power_reference.md section 6 and conventions.md."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

FinishReason: TypeAlias = Literal["stop_token", "stop_string", "length", "context_full", "cancelled", "grammar_end"]


@attrs.define(kw_only=True)
class Timings:
    """Nanoseconds. ``total`` is wall time from the call to the last token; ``load`` belongs to the session."""

    load: int = 0
    prefill: int = 0
    draft: int = 0
    verify: int = 0
    sample: int = 0
    total: int = 0


@attrs.frozen(kw_only=True)
class DraftRecord:
    """The external draft of a session.

    Attributes:
        file: Name of the file.
        kind: Strategy that reads it.
        sha256: Digest of the file, measured when the session opened.
        admitted: A manifest vouches for the file and for its target, and both were measured again.
        source: Where the file came from, as its manifest says; None without a manifest, like the next two.
        revision: Revision at the source.
        license: License of the file.
    """

    file: str
    kind: str
    sha256: str
    admitted: bool = False
    source: str | None = None
    revision: str | None = None
    license: str | None = None


@attrs.define(kw_only=True)
class Report:
    """Counters of one request.

    Attributes:
        strategy: What ran.
        rounds: Verification transactions that were committed.
        target_calls: Native target evaluations after the prompt: slices, replays and rebuilds.
        drafted_tokens: Proposals that were put up for verification.
        accepted_tokens: Proposals that the target's own choice confirmed.
        verified_tokens: Tokens emitted by rounds, end tokens not counted: accepted ones, corrections and bonuses.
        max_rejected_tokens: Longest rejected suffix of a proposal.
        accepted_prefix_histogram: Rounds by the length of their accepted prefix; rounds without drafts count as 0.
        draft_limit_histogram: Rounds by the width that the scheduler allowed.
        emitted_tokens: Tokens handed out, end tokens not counted; the first one comes from the prompt's last row.
        replays: Rounds whose rejected rows exceeded the rollback window and were re-evaluated.
        copied_bytes: Checkpoint bytes copied for rollback; the common path copies none.
        draft: The external draft, None without one.
        guarantee: ``bit-identical(W)``, ``margin-guarded`` or ``target-authoritative``.
        events: What stood down, was clamped, replayed, rebuilt or chosen by default, in order.
    """

    strategy: str
    guarantee: str = "target-authoritative"
    rounds: int = 0
    target_calls: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    verified_tokens: int = 0
    max_rejected_tokens: int = 0
    accepted_prefix_histogram: dict[int, int] = attrs.field(factory=dict)
    draft_limit_histogram: dict[int, int] = attrs.field(factory=dict)
    emitted_tokens: int = 0
    prompt_tokens: int = 0
    replays: int = 0
    copied_bytes: int = 0
    draft: DraftRecord | None = None
    settings: dict[str, Any] = attrs.field(factory=dict)
    events: list[dict[str, Any]] = attrs.field(factory=list)
    timings_ns: Timings = attrs.field(factory=Timings)

    @property
    def target_passes(self) -> int:
        """Another name for ``rounds``."""
        return self.rounds

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted; 0 when nothing was drafted."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else 0.0

    @property
    def tokens_per_target_pass(self) -> float:
        """Tokens emitted by rounds over target passes; 0 without a pass."""
        return self.verified_tokens / self.rounds if self.rounds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Emitted tokens over wall time after the prompt; 0 when no time passed."""
        decode_ns = self.timings_ns.total - self.timings_ns.prefill
        return self.emitted_tokens * 1e9 / decode_ns if decode_ns > 0 else 0.0

    @property
    def admitted(self) -> bool | None:
        """Whether an admission manifest vouches for the draft; None without a draft file."""
        return self.draft.admitted if self.draft is not None else None

    def count_block(self, drafted_tokens: int, accepted_tokens: int) -> None:
        """Count the drafts of one round."""
        self.drafted_tokens += drafted_tokens
        self.accepted_tokens += accepted_tokens
        self.max_rejected_tokens = max(self.max_rejected_tokens, drafted_tokens - accepted_tokens)
        _count(self.accepted_prefix_histogram, accepted_tokens)

    def count_limit(self, limit_tokens: int) -> None:
        """Count the width that a round was allowed."""
        _count(self.draft_limit_histogram, limit_tokens)

    def add_event(self, event: str, **details: Any) -> None:
        """Append an event with the round it belongs to."""
        self.events.append({"event": event, "round": self.rounds, **details})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, derived figures included."""
        values = attrs.asdict(self)
        values["admitted"] = self.admitted
        values["target_passes"] = self.target_passes
        values["acceptance_rate"] = self.acceptance_rate
        values["tokens_per_target_pass"] = self.tokens_per_target_pass
        values["tokens_per_second"] = self.tokens_per_second
        return values


@attrs.frozen(kw_only=True)
class GenerationResult:
    """A finished request. ``tokens`` is what was emitted; ``text`` ends before a stop string."""

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    report: Report

    def to_dict(self) -> dict[str, Any]:
        """The object that ``power generate --json`` prints."""
        return {
            "tokens": list(self.tokens),
            "text": self.text,
            "finish_reason": self.finish_reason,
            "report": self.report.to_dict(),
        }


def _count(histogram: dict[int, int], value: int) -> None:
    histogram[value] = histogram.get(value, 0) + 1
