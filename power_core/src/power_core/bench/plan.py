"""What a benchmark runs: variants, prompts, repeats, gates. What cannot be is refused before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from power_core.bench.synthetic import AcceptanceProfile
from power_core.errors import ConfigError, out_of_range
from power_core.plugins.manager import PowerPluginManager
from power_core.settings import RequestSettings, SessionSettings
from power_core.strategies import AUTO, OFF

SessionMode: TypeAlias = Literal["together", "in-turn"]

MOST_PROMPT_BYTES = 1_048_576
FEWEST_PAIRS = 5
"""Fewer pairs than this give no interval, and so no gate on one."""


@attrs.frozen(kw_only=True)
class Prompt:
    """A named text to continue."""

    name: str
    text: str

    def __attrs_post_init__(self) -> None:
        size = len(self.text.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= MOST_PROMPT_BYTES:
            raise out_of_range("prompts", f"{self.name}: {size} bytes", f"texts of 1 to {MOST_PROMPT_BYTES} bytes")


@attrs.frozen(kw_only=True)
class Variant:
    """One way to decode: its name in tables, and how its session is opened."""

    name: str
    settings: SessionSettings

    @property
    def plain(self) -> bool:
        """True for plain decoding, which everything is compared with."""
        return self.settings.spec == OFF


@attrs.frozen(kw_only=True)
class Gates:
    """What every variant but ``off`` has to reach; None asks for nothing.

    Attributes:
        rate: Tokens per second, the median of the decode rates.
        each_rate: Tokens per second, every single decode rate.
        ratio: Times plain decoding: the interval of the paired ratio has to reach it.
        each_ratio: Times plain decoding, every single pair.
    """

    rate: float | None = None
    each_rate: float | None = None
    ratio: float | None = None
    each_ratio: float | None = None

    def __attrs_post_init__(self) -> None:
        for field, value in attrs.asdict(self).items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise out_of_range(f"gate_{field}", value, "a number above 0")


@attrs.frozen(kw_only=True)
class BenchPlan:
    """A benchmark.

    Attributes:
        variants: What is compared; exactly one of them is plain decoding.
        prompts: Texts that every variant continues; names differ.
        request: Every run; one that ends before its ``max_tokens`` is refused, and so is one with stop strings.
        repeats: Measured runs per prompt and variant.
        warmups: Runs per prompt and variant that are checked and not kept.
        chat: Wrap every prompt in the model's chat template.
        sessions: ``together`` keeps every session open, ``in-turn`` opens one for each run.
        gates: What has to be reached.
        profile: Acceptance to replay instead of the drafters' own.
        row_costs: Measure one evaluation of the target by its rows, too.
    """

    variants: tuple[Variant, ...]
    prompts: tuple[Prompt, ...]
    request: RequestSettings = attrs.field(factory=RequestSettings)
    repeats: int = 5
    warmups: int = 1
    chat: bool = False
    sessions: SessionMode = "together"
    gates: Gates = attrs.field(factory=Gates)
    profile: AcceptanceProfile | None = None
    row_costs: bool = False

    def __attrs_post_init__(self) -> None:
        ranges = {"max_tokens": (2, 65_536), "repeats": (1, 100), "warmups": (0, 10)}
        values = {"max_tokens": self.request.max_tokens, "repeats": self.repeats, "warmups": self.warmups}
        for field, (low, high) in ranges.items():
            if not low <= values[field] <= high:
                raise out_of_range(field, values[field], f"a whole number from {low} to {high}")
        for field in ("stop", "stop_tokens"):
            if getattr(self.request, field):
                value = getattr(self.request, field)
                raise out_of_range(field, value, "none: every run of a benchmark reaches its length")
        if self.sessions not in ("together", "in-turn"):
            raise out_of_range("sessions", self.sessions, "one of together, in-turn")
        _require_different("prompts", [prompt.name for prompt in self.prompts])
        _require_different("spec", [variant.name for variant in self.variants])
        if sum(variant.plain for variant in self.variants) != 1:
            raise out_of_range("spec", [variant.name for variant in self.variants], "exactly one `off` among them")
        if self.profile is not None and len(self.variants) == 1:
            raise ConfigError(
                "a profile of synthetic acceptance replaces drafts, and nothing but `off` would run",
                field="synthetic_acceptance",
                hint="name a strategy with --spec",
            )
        if self.gates.ratio is not None and self.pairs < FEWEST_PAIRS:
            raise ConfigError(
                f"`gate_ratio` needs an interval and so {FEWEST_PAIRS} pairs, prompts x repeats give {self.pairs}",
                field="gate_ratio",
                hint="raise --repeats, or give more prompts",
            )

    @property
    def pairs(self) -> int:
        """Runs that each variant has to compare with plain decoding."""
        return len(self.prompts) * self.repeats

    @property
    def plain(self) -> Variant:
        """Plain decoding."""
        return next(variant for variant in self.variants if variant.plain)


def make_variants(
    base: SessionSettings,
    plugins: PowerPluginManager,
    *,
    specs: Sequence[str],
    draft_maxes: Sequence[int] = (),
    schedulers: Sequence[str] = (),
    drafts: Mapping[str, Path] | None = None,
) -> tuple[Variant, ...]:
    """Return ``off``, then every strategy with every K and every scheduler.

    Args:
        base: All other settings; its draft goes to the strategies that read one and have none in ``drafts``.
        plugins: The installed plugins, which know the names.
        specs: Strategies; ``off`` may be left out.
        draft_maxes: Values of K; none takes the strategy's own.
        schedulers: None takes that of ``base``.
        drafts: Draft files by strategy.

    Raises:
        ConfigError: unknown names, ``auto``, a draft for a strategy that is not run, values out of range.
    """
    names = [plugins.canonical_name(spec) for spec in specs]
    if AUTO in names:
        raise out_of_range("spec", AUTO, "strategies by name", hint="name them, as in --spec mtp,prompt-lookup")
    files = {plugins.canonical_name(kind): path for kind, path in (drafts or {}).items()}
    for name in files:
        if name not in names or plugins.draft_kind(name) is None:
            raise out_of_range("draft", name, "drafts for strategies that are run and read one")
    variants = [Variant(name=OFF, settings=_plain_settings(base))]
    for name in names:
        if name == OFF:
            continue
        draft = files.get(name, base.draft) if plugins.draft_kind(name) is not None else None
        for draft_max in draft_maxes or (None,):
            for scheduler in schedulers or (base.scheduler,):
                changes: dict[str, Any] = {"draft": draft, "draft_max": draft_max, "scheduler": scheduler}
                settings = attrs.evolve(base, spec=name, **changes)
                variants.append(Variant(name=_variant_name(settings), settings=settings))
    return tuple(variants)


def _plain_settings(base: SessionSettings) -> SessionSettings:
    return attrs.evolve(
        base,
        spec=OFF,
        draft=None,
        draft_max=None,
        draft_min=0,
        draft_p_min=0.0,
        scheduler="fixed",
        mtp_fr_vocab_size=None,
        mtp_fr_map=None,
    )


def _variant_name(settings: SessionSettings) -> str:
    width = "" if settings.draft_max is None else f" K={settings.draft_max}"
    scheduler = "" if settings.scheduler == "fixed" else f" {settings.scheduler}"
    return f"{settings.spec}{width}{scheduler}"


def _require_different(field: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise out_of_range(field, twice[0] if twice else [], "at least one, each of them once")


def running_order(names: Sequence[str], turn: int) -> list[str]:
    """Return the order of the variants at a turn: rotated every second turn, reversed every other one.

    Over 2n turns with n variants, each stands n times before each other, and twice at every place.
    """
    n_names = len(names)
    at = turn // 2 % n_names
    rotated = [*names[at:], *names[:at]]
    return rotated if turn % 2 == 0 else rotated[::-1]
