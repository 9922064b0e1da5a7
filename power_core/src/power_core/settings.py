"""Everything a session can be told, checked where it is set. Ranges: power_reference.md section 7."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from power_core.compute_placement import KV_TYPES, check_placement
from power_core.errors import ConfigError, out_of_range
from power_core.sampler import SamplingSettings
from power_core.target import Arithmetic
from power_core.tokens import TokenId

SessionArithmetic: TypeAlias = 'Arithmetic | Literal["guarded"]'
MOST_LOGPROBS = 20

VerifyRows: TypeAlias = 'int | Literal["all"] | None'

_RANGES: dict[str, tuple[int, int]] = {
    "draft_max": (1, 64),
    "draft_min": (0, 64),
    "snapshots": (1, 64),
    "ctx": (2, 2**24),
    "batch": (1, 2**16),
    "ubatch": (1, 2**16),
    "threads": (0, 1024),
    "threads_batch": (0, 1024),
    "gpu_layers": (-1, 10_000),
    "mtp_fr_vocab_size": (1, 1_048_576),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "scheduler": ("fixed", "adaptive", "goodput"),
    "arithmetic": ("exact", "fast", "guarded"),
    "flash_attention": ("on", "off", "auto"),
    "kv_type": KV_TYPES,
    "verify_shape": ("early-stop", "fixed"),
    "device_sampling": ("on", "off"),
}


@attrs.frozen(kw_only=True)
class SessionSettings:
    """How a session is opened.

    Attributes:
        model: Target GGUF; None opens the small default target.
        draft: External draft GGUF, for the strategies that use one.
        spec: Strategy name or alias; ``auto`` lets the files decide.
        draft_max: K, most drafts a round; None takes the strategy's own default.
        draft_min: Fewest drafts worth verifying; below it a round drafts nothing.
        draft_p_min: A draft less probable than this ends the proposal.
        snapshots: S, recurrent-state snapshots kept for rollback; min(K, S) are asked for.
        verify_rows: Rows per verification slice; ``all`` verifies a block in one piece; None chooses a width that never
            needs more than S snapshots.
        verify_shape: ``early-stop`` evaluates what a slice has; ``fixed`` fills the slices of a round with drafts up to
            the same number of rows and drops what it added, so that a device can repeat one graph.
        scheduler: Who decides the draft width per round.
        arithmetic: ``exact`` computes verified rows as single rows are computed; ``fast`` takes the quickest kernels;
            ``guarded`` takes them too and decides near-ties again by single rows.
        ctx: Positions in the context; None takes 4096, or less where the target or the draft was trained with less.
        batch: Most rows of one evaluation; None takes 512, or less in a smaller context.
        ubatch: Rows computed at once and per prompt chunk; None takes ``batch``. Fewer need less memory.
        threads: Compute threads, 0 for one per core.
        threads_batch: Compute threads of evaluations of several rows; 0 takes ``threads``.
        cpu_mask: Processors that the compute threads run on, as a hexadecimal mask; None leaves that to the system.
        gpu_layers: Layers to offload, -1 for all.
        device: The only GPU to use, by the backend's name for it; None uses every one.
        override_tensor: ``PATTERN=BUFFER``: tensors of the target whose name the regular expression finds go to that
            buffer. A draft is never placed so.
        kv_type: Type in which the target keeps keys and values.
        device_sampling: ``on`` lets the device choose greedily, for the target and where possible for the draft, so
            that no logits cross to the host; not with ``guarded`` arithmetic, which reads them.
        flash_attention: ``auto`` is on wherever exact arithmetic needs it.
        mtp_fr_vocab_size: Rows of a frequency-reduced MTP head: the first token ids, or the first of ``mtp_fr_map``;
            None takes all. Other tokens are never drafted; the target still chooses among all.
        mtp_fr_map: File that ranks the tokens of a frequency-reduced MTP head; None is the order of their ids.
    """

    model: Path | None = None
    draft: Path | None = None
    spec: str = "auto"
    draft_max: int | None = None
    draft_min: int = 0
    draft_p_min: float = 0.0
    snapshots: int = 7
    verify_rows: VerifyRows = None
    verify_shape: Literal["early-stop", "fixed"] = "early-stop"
    scheduler: Literal["fixed", "adaptive", "goodput"] = "fixed"
    arithmetic: SessionArithmetic = "exact"
    ctx: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    threads: int = 0
    threads_batch: int = 0
    cpu_mask: str | None = None
    gpu_layers: int = 0
    device: str | None = None
    override_tensor: tuple[str, ...] = ()
    kv_type: str = "f16"
    device_sampling: Literal["on", "off"] = "off"
    flash_attention: Literal["on", "off", "auto"] = "auto"
    mtp_fr_vocab_size: int | None = None
    mtp_fr_map: Path | None = None

    def __attrs_post_init__(self) -> None:
        self._check_each()
        self._check_together()

    def _check_each(self) -> None:
        if not isinstance(self.spec, str):
            raise out_of_range("spec", self.spec, "a strategy's name")
        for field in ("model", "draft", "mtp_fr_map"):
            if not isinstance(getattr(self, field), Path | None):
                raise out_of_range(field, getattr(self, field), "a pathlib.Path")
        for field, (low, high) in _RANGES.items():
            value = getattr(self, field)
            if value is not None and not (_is_int(value) and low <= value <= high):
                raise out_of_range(field, value, f"a whole number from {low} to {high}")
        for field, allowed in _CHOICES.items():
            if getattr(self, field) not in allowed:
                raise out_of_range(field, getattr(self, field), "one of " + ", ".join(allowed))
        if not (
            isinstance(self.draft_p_min, int | float)
            and math.isfinite(self.draft_p_min)
            and 0.0 <= self.draft_p_min <= 1.0
        ):
            raise out_of_range("draft_p_min", self.draft_p_min, "a finite number from 0 to 1")
        whole = _is_int(self.verify_rows) and 1 <= int(self.verify_rows or 0) <= 65
        if self.verify_rows not in (None, "all") and not whole:
            raise out_of_range("verify_rows", self.verify_rows, "`all` or a whole number from 1 to 65")

    def _check_together(self) -> None:
        check_placement(self)
        if self.draft_max is not None and self.draft_min > self.draft_max:
            raise out_of_range("draft_min", self.draft_min, f"at most draft_max ({self.draft_max})")
        if self.scheduler == "adaptive" and self.snapshots < self.draft_min:
            raise out_of_range(
                "snapshots",
                self.snapshots,
                f"at least draft_min ({self.draft_min}) with the adaptive scheduler",
                hint="raise `--snapshots`, lower `--draft-min`, or use `--scheduler goodput`",
            )
        if self.arithmetic == "exact" and self.flash_attention == "off":
            raise ConfigError(
                "`flash_attention` is off, but exact arithmetic needs it on",
                field="flash_attention",
                value="off",
                allowed="on, auto",
                hint="leave flash attention on, or choose `--arithmetic fast` and its weaker guarantee",
            )


@attrs.frozen(kw_only=True)
class RequestSettings:
    """How one request is generated.

    Attributes:
        max_tokens: Most tokens to emit.
        sampling: How the target chooses.
        stop: Texts to end before; they are not part of the text, the tokens that complete one are emitted.
        stop_tokens: Tokens to end before, beside the model's own end tokens; they are not emitted.
        logprobs: Report every emitted token's log-probability and so many of the likeliest tokens; None reports none.
    """

    max_tokens: int = 512
    sampling: SamplingSettings = attrs.field(factory=SamplingSettings)
    stop: tuple[str, ...] = ()
    stop_tokens: tuple[TokenId, ...] = ()
    logprobs: int | None = None

    def __attrs_post_init__(self) -> None:
        if not (_is_int(self.max_tokens) and 0 <= self.max_tokens <= 2**31 - 1):
            raise out_of_range("max_tokens", self.max_tokens, "a whole number of 0 or more")
        for stop in self.stop:
            if not isinstance(stop, str) or not stop or _has_surrogates(stop):
                raise out_of_range("stop", stop, "a non-empty string of whole characters")
        for token in self.stop_tokens:
            if not (_is_int(token) and 0 <= token <= 2**31 - 1):
                raise out_of_range("stop_tokens", token, "token ids of 0 or more")
        if self.logprobs is not None and not (_is_int(self.logprobs) and 0 <= self.logprobs <= MOST_LOGPROBS):
            raise out_of_range("logprobs", self.logprobs, f"a whole number from 0 to {MOST_LOGPROBS}")


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
