"""What a request did, with the definitions of power_reference.md section 6 and conventions.md."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from power_core.logprobs import TokenLogprobs
from power_core.scheduling import Decision

FinishReason: TypeAlias = Literal["stop_token", "stop_string", "length", "context_full", "cancelled", "grammar_end"]

DERIVED = ("admitted", "target_passes", "acceptance_rate", "tokens_per_target_pass", "tokens_per_second")
"""Properties of a report that its JSON holds beside its fields."""

MOST_DECISIONS = 256
FIRST_DECISIONS = 64
"""A long list of decisions keeps its first ones and its last ones."""


@attrs.define(kw_only=True)
class Timings:
    """Nanoseconds. ``total`` is wall time from the call to the last token; ``load`` belongs to the session.

    ``guard`` is the time for margins and for deciding rows again, evaluations that ``verify`` counts too included;
    ``probe`` is what measuring took, when the session opened (part of ``load``) and during the request.
    """

    load: int = 0
    prefill: int = 0
    draft: int = 0
    verify: int = 0
    guard: int = 0
    sample: int = 0
    probe: int = 0
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


@attrs.frozen(kw_only=True)
class ProbeRecord:
    """What was measured on this machine, with these files and settings, and a guarantee rests on.

    Attributes:
        widest_rows: W: slices of up to so many rows had the bits of single rows at every depth below.
        depths_tokens: Depths of context that stand for those the request went through.
        largest_difference: Largest difference of a logit from single rows, over all row counts that were measured.
    """

    widest_rows: int
    depths_tokens: tuple[int, ...]
    largest_difference: float


@attrs.define(kw_only=True)
class Report:
    """Counters of one request.

    Attributes:
        strategy: What ran.
        rounds: Verification transactions that were committed.
        target_calls: Native target evaluations after the prompt: slices, replays, rebuilds and rows decided again; the
            probe's are not counted.
        drafted_tokens: Proposals that were put up for verification.
        accepted_tokens: Proposals that the target's own choice confirmed.
        verified_tokens: Tokens emitted by rounds, end tokens not counted: accepted ones, corrections and bonuses.
        max_rejected_tokens: Longest rejected suffix of a proposal.
        accepted_prefix_histogram: Rounds by the length of their accepted prefix; rounds without drafts count as 0.
        drafted_histogram: Rounds by the number of proposals that were put up for verification.
        draft_limit_histogram: Rounds by the width that the scheduler allowed.
        decisions: Widths that an adaptive scheduler chose, with the round, the reason and the rate it rests on.
        decisions_dropped: Decisions left out of the middle, so that the list stays short.
        emitted_tokens: Tokens handed out, end tokens not counted; the first one comes from the prompt's last row.
        replays: Rounds whose rejected rows exceeded the rollback window and were re-evaluated.
        copied_bytes: Checkpoint bytes copied for rollback; the common path copies none.
        draft: The external draft, None without one.
        guarantee: ``bit-identical(W)``, ``margin-guarded`` or ``target-authoritative``. Slices of up to W rows were
            measured to have the bits of single rows in every zone that the request went through, and no slice was wider
            than what had been measured where it was evaluated. Plain decoding is ``bit-identical(1)``.
        probe: What the guarantee rests on; None for plain decoding, which has nothing to measure.
        guarded_rows: Near-ties that were decided again by single rows.
        guard_calls: Target calls that this took.
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
    drafted_histogram: dict[int, int] = attrs.field(factory=dict)
    draft_limit_histogram: dict[int, int] = attrs.field(factory=dict)
    decisions: list[dict[str, Any]] = attrs.field(factory=list)
    decisions_dropped: int = 0
    emitted_tokens: int = 0
    prompt_tokens: int = 0
    replays: int = 0
    copied_bytes: int = 0
    guarded_rows: int = 0
    guard_calls: int = 0
    probe: ProbeRecord | None = None
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

    def count_calls(self, target_calls: int, draft_ns: int, verify_ns: int, sample_ns: int) -> None:
        """Count the target's evaluations of one round in one call, and what its phases took."""
        timings = self.timings_ns
        self.target_calls += target_calls
        timings.draft += draft_ns
        timings.verify += verify_ns
        timings.sample += sample_ns

    def count_block(self, drafted_tokens: int, accepted_tokens: int) -> None:
        """Count the drafts of one round."""
        self.drafted_tokens += drafted_tokens
        self.accepted_tokens += accepted_tokens
        if drafted_tokens - accepted_tokens > self.max_rejected_tokens:
            self.max_rejected_tokens = drafted_tokens - accepted_tokens
        prefixes, widths = self.accepted_prefix_histogram, self.drafted_histogram
        prefixes[accepted_tokens] = prefixes.get(accepted_tokens, 0) + 1
        widths[drafted_tokens] = widths.get(drafted_tokens, 0) + 1

    def count_limit(self, limit_tokens: int) -> None:
        """Count the width that a round was allowed."""
        limits = self.draft_limit_histogram
        limits[limit_tokens] = limits.get(limit_tokens, 0) + 1

    def add_decision(self, decision: Decision) -> None:
        """Append a scheduler's decision with the round it belongs to; a final one is an event as well."""
        if len(self.decisions) == MOST_DECISIONS:
            del self.decisions[FIRST_DECISIONS]
            self.decisions_dropped += 1
        self.decisions.append(
            {
                "round": self.rounds,
                "width": decision.width_tokens,
                "reason": decision.reason,
                "expected_rate": decision.expected_rate,
            }
        )
        if decision.final:
            self.add_event("scheduler", draft_limit=decision.width_tokens, reason=decision.reason)

    def add_event(self, event: str, **details: Any) -> None:
        """Append an event with the round it belongs to."""
        self.events.append({"event": event, "round": self.rounds, **details})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, derived figures included."""
        return attrs.asdict(self) | {name: getattr(self, name) for name in DERIVED}


@attrs.frozen(kw_only=True)
class GenerationResult:
    """A finished request. ``tokens`` is what was emitted; ``text`` ends before a stop string.

    ``logprobs`` has an entry per token, or is None when the request did not ask.
    """

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    report: Report
    logprobs: tuple[TokenLogprobs, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object that ``power generate --json`` prints."""
        return {
            "tokens": list(self.tokens),
            "text": self.text,
            "finish_reason": self.finish_reason,
            **({} if self.logprobs is None else {"logprobs": [each.to_dict() for each in self.logprobs]}),
            "report": self.report.to_dict(),
        }
