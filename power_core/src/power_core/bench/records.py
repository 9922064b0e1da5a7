"""The report of a benchmark, value by value as it stands in its JSON. Figures are defined in docs/benchmarking.md."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from power_core.bench.plan import Gates, SessionMode
from power_core.bench.synthetic import AcceptanceProfile
from power_core.report import DraftRecord

SCHEMA_NAME: Literal["power.bench.v1"] = "power.bench.v1"


@attrs.frozen(kw_only=True)
class Workload:
    """What was asked of every variant.

    Attributes:
        max_tokens: Tokens of every run.
        repeats: Measured runs per prompt and variant.
        warmups: Runs before them, checked and not kept.
        chat: Prompts were wrapped in the model's chat template.
        sessions: ``together``: all open at once; ``in-turn``: each run opened its own.
        sampling: How the target chose; a grammar by its digest.
        logprobs: Likeliest tokens that were reported with every token, None for none.
    """

    max_tokens: int
    repeats: int
    warmups: int
    chat: bool
    sessions: SessionMode
    sampling: dict[str, Any]
    logprobs: int | None


@attrs.frozen(kw_only=True)
class TargetRecord:
    """The target's file."""

    file: str
    architecture: str
    size_bytes: int
    sha256: str


@attrs.frozen(kw_only=True)
class PromptRecord:
    """A prompt by its digests, and what plain decoding made of it; the text itself is not in the report.

    Attributes:
        name: Name of the prompt.
        sha256: Digest of the text.
        tokens: Number of tokens, the chat template's included.
        tokens_sha256: Digest of the token ids, little-endian int32.
        output_sha256: Digest of plain decoding's token ids.
    """

    name: str
    sha256: str
    tokens: int
    tokens_sha256: str
    output_sha256: str


@attrs.frozen(kw_only=True)
class VariantRecord:
    """One way to decode, as it was opened.

    Attributes:
        name: Name in tables.
        strategy: What ran.
        draft_max: K in force.
        scheduler: Who chose the widths.
        guarantee: See the report of a generation.
        draft: The external draft, None without one.
        settings: What was in force.
        events: What was decided while opening.
        load_ns: Time to open the session.
        opened_bytes: Growth of the process's private memory while it was opened; None where it cannot be read.
    """

    name: str
    strategy: str
    draft_max: int
    scheduler: str
    guarantee: str
    draft: DraftRecord | None
    settings: dict[str, Any]
    events: tuple[dict[str, Any], ...]
    load_ns: int
    opened_bytes: int | None


@attrs.frozen(kw_only=True)
class Environment:
    """The machine and the software. Paths are left out.

    Attributes:
        cpu: Name of the processor.
        cores: Cores that the process may use.
        memory_bytes: Memory of the machine, None where it cannot be read.
        load_before: Load averages over 1, 5 and 15 minutes before the first run; empty where there are none.
        load_after: The same after the last run.
        packages: Versions of the core and of every plugin.
        backend: Facts of the backend's library, as ``power doctor`` shows them.
    """

    platform: str
    python: str
    cpu: str
    cores: int
    memory_bytes: int | None
    load_before: tuple[float, ...]
    load_after: tuple[float, ...]
    packages: dict[str, str]
    backend: dict[str, str]


@attrs.frozen(kw_only=True)
class Sample:
    """One measured run. Times count from the call.

    Attributes:
        variant: Name of the variant.
        prompt: Name of the prompt.
        repeat: 0 for the first time.
        place: Place in the order of its turn.
        tokens: Emitted tokens.
        first_token_ns: Until the first token was handed out.
        last_token_ns: Until the last token was handed out.
        total_ns: Until the result was complete.
        decode_tokens_per_second: (tokens - 1) / (last - first token time).
        end_to_end_tokens_per_second: tokens / total.
        compute_ns: Of the time from the first token to the last, inside the backend's compute, the drafter's included
            where it tells.
        peak_bytes: Peak resident memory of the whole process during the run, None where it cannot be read.
        phases_ns: What the time was spent on, as the report of a generation counts it.
        drafted_histogram: Rounds by the number of drafts put up for verification.
        accepted_histogram: Rounds by the length of the accepted prefix.
        output_sha256: Digest of the emitted token ids, little-endian int32.
    """

    variant: str
    prompt: str
    repeat: int
    place: int
    tokens: int
    first_token_ns: int
    last_token_ns: int
    total_ns: int
    decode_tokens_per_second: float
    end_to_end_tokens_per_second: float
    rounds: int
    target_calls: int
    drafted_tokens: int
    accepted_tokens: int
    verified_tokens: int
    replays: int
    copied_bytes: int
    compute_ns: int
    peak_bytes: int | None
    phases_ns: dict[str, int]
    drafted_histogram: dict[int, int]
    accepted_histogram: dict[int, int]
    output_sha256: str


@attrs.frozen(kw_only=True)
class Ratio:
    """A variant's decode rate over plain decoding's, pair by pair.

    Attributes:
        pairs: Number of pairs: a prompt in a repeat.
        median: Median of the ratios.
        low: Lower end of its interval; None with too few pairs for one.
        high: Upper end.
        confidence: Of the interval.
        minimum: Smallest ratio of a pair.
        of_medians: Ratio of the two medians.
        request_wide: Ratio of the two request-wide rates.
    """

    pairs: int
    median: float
    low: float | None
    high: float | None
    confidence: float
    minimum: float
    of_medians: float
    request_wide: float


@attrs.frozen(kw_only=True)
class Summary:
    """The figures of one variant over its samples.

    Attributes:
        request_wide_tokens_per_second: All tokens over all time from call to result.
        acceptance_rate: Accepted over drafted, 0 when nothing was drafted.
        tokens_per_target_pass: Tokens emitted by rounds over rounds.
        accepted_by_position: At place i, the share of the rounds with more than i drafts that accepted more than i.
        own_ns_per_round: Wall time outside the backend's compute, from the first token to the last, over rounds.
        phases_ns: Sums.
        peak_bytes: Largest of the samples.
        prompts_equal_to_off: Prompts whose output was plain decoding's.
        ratio: Compared with plain decoding; None for plain decoding itself.
    """

    variant: str
    samples: int
    tokens: int
    median_decode_tokens_per_second: float
    minimum_decode_tokens_per_second: float
    maximum_decode_tokens_per_second: float
    median_end_to_end_tokens_per_second: float
    request_wide_tokens_per_second: float
    rounds: int
    target_calls: int
    drafted_tokens: int
    accepted_tokens: int
    replays: int
    copied_bytes: int
    acceptance_rate: float
    tokens_per_target_pass: float
    accepted_by_position: tuple[float, ...]
    own_ns_per_round: float
    phases_ns: dict[str, int]
    peak_bytes: int | None
    prompts_equal_to_off: int
    ratio: Ratio | None


@attrs.frozen(kw_only=True)
class RowCost:
    """Evaluations of the target with so many rows, as verification does them."""

    rows: int
    median_ns: int
    samples_ns: tuple[int, ...]


@attrs.frozen(kw_only=True)
class RowCosts:
    """The cost curve of a target, measured on the context of one variant after so many tokens."""

    variant: str
    context_tokens: int
    costs: tuple[RowCost, ...]


@attrs.frozen(kw_only=True)
class GateResult:
    """One gate: what a variant had to reach and what it reached."""

    gate: Literal["equal_to_off", "rate", "each_rate", "ratio", "each_ratio"]
    variant: str
    required: float
    observed: float
    passed: bool


@attrs.frozen(kw_only=True)
class BenchReport:
    """A finished benchmark.

    Attributes:
        schema: Name and version of this format.
        recorded_at: UTC, ISO 8601.
        synthetic: The acceptance that was replayed; None when drafts were the drafters' own.
        passed: True when every gate was.
    """

    schema: Literal["power.bench.v1"] = SCHEMA_NAME
    recorded_at: str
    synthetic: AcceptanceProfile | None
    workload: Workload
    required: Gates
    target: TargetRecord
    prompts: tuple[PromptRecord, ...]
    variants: tuple[VariantRecord, ...]
    environment: Environment
    samples: tuple[Sample, ...]
    row_costs: RowCosts | None
    summaries: tuple[Summary, ...]
    gates: tuple[GateResult, ...]
    passed: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return attrs.asdict(self)

    def samples_of(self, variant: str) -> list[Sample]:
        """The samples of a variant, in the order they ran."""
        return [sample for sample in self.samples if sample.variant == variant]

    def summary_of(self, variant: str) -> Summary:
        """The figures of a variant."""
        return next(summary for summary in self.summaries if summary.variant == variant)
