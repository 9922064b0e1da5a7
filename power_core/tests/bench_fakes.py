"""Benchmarks without a model: fake sessions for the runner, and reports whose decode rates are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs
from core_sessions import N_VOCAB, drafts_with_acceptance, open_fake_session

from power_core.bench.measures import decode_rate, end_to_end_rate
from power_core.bench.pairs import Outcome, PairedRuns
from power_core.bench.plan import BenchPlan, Prompt, Variant
from power_core.bench.records import (
    BenchReport,
    Environment,
    PromptRecord,
    RowCost,
    RowCosts,
    Sample,
    TargetRecord,
    VariantRecord,
)
from power_core.bench.runner import make_report
from power_core.bench.synthetic import AcceptanceProfile, SyntheticDrafter, Truth
from power_core.report import DraftRecord
from power_core.session import Session
from power_core.settings import RequestSettings, SessionSettings
from power_core.testing.fakes import ScriptedDrafter

OFF = Variant(name="off", settings=SessionSettings(spec="off"))
MTP = Variant(name="mtp K=3", settings=SessionSettings(spec="mtp", draft_max=3))
WIDE = Variant(name="mtp K=5", settings=SessionSettings(spec="mtp", draft_max=5))
PROMPTS = (Prompt(name="a", text="abcabc"), Prompt(name="b", text="xyzxyzxyz"))
TARGET = TargetRecord(file="target.gguf", architecture="fake", size_bytes=1, sha256="ab" * 32)
ENVIRONMENT = Environment(
    platform="Linux",
    python="CPython 3.11",
    cpu="a processor",
    cores=2,
    memory_bytes=None,
    load_before=(0.1, 0.2, 0.3),
    load_after=(1.0, 0.5, 0.3),
    packages={"power-core": "0.1.0"},
    backend={"compiler": "c++ 12"},
)


def fake_plan(**changes: Any) -> BenchPlan:
    """Return a small plan on fakes."""
    values = {
        "variants": (OFF, MTP, WIDE),
        "prompts": PROMPTS,
        "request": RequestSettings(max_tokens=24),
        "repeats": 3,
    }
    return BenchPlan(**(values | changes))


class FakeOpener:
    """Opens fake sessions whose drafts are right for ``choose(limit)`` tokens, and remembers what it opened."""

    def __init__(
        self,
        choose: Callable[[int], int] = lambda limit: limit // 2,
        profile: AcceptanceProfile | None = None,
        **session: Any,
    ) -> None:
        self.choose = choose
        self.profile = profile
        self.session = session
        self.opened: list[str] = []
        self.sessions: list[Session] = []
        self.requests: list[tuple[str, int]] = []
        self.before_request: Callable[[Session, str], None] = lambda session, name: None

    def __call__(self, variant: Variant, truth: Truth) -> Session:
        self.opened.append(variant.name)
        drafter = None if variant.plain else self._drafter(truth)
        session = open_fake_session(drafter, draft_max=variant.settings.draft_max or 0, **self.session)
        self.sessions.append(session)
        generate = session.generate

        def noted(prompt: Any, request: Any) -> Any:
            self.requests.append((variant.name, len(prompt)))
            self.before_request(session, variant.name)
            return generate(prompt, request)

        session.generate = noted  # type: ignore[method-assign]
        return session

    def _drafter(self, truth: Truth) -> Any:
        inner = ScriptedDrafter(drafts_with_acceptance(self.choose))
        return inner if self.profile is None else SyntheticDrafter(inner, truth, self.profile, N_VOCAB)


def run_fakes(plan: BenchPlan, opener: FakeOpener | None = None, **options: Any) -> Outcome:
    """Run a plan on fakes."""
    return PairedRuns(plan, opener or FakeOpener(), **options).run()


def fake_report(plan: BenchPlan | None = None, opener: FakeOpener | None = None) -> BenchReport:
    """Return the report of a plan that ran on fakes."""
    plan = plan or fake_plan()
    return make_report(plan, run_fakes(plan, opener), TARGET, ENVIRONMENT)


def chosen_sample(variant: str, prompt: str, repeat: int, rate: float, tokens: int = 11, **changes: Any) -> Sample:
    """Return a sample with a chosen decode rate; all its rounds drafted three and accepted one, unless it is plain."""
    plain = variant == "off"
    rounds = tokens - 1 if plain else (tokens - 1) // 2
    decode_ns = round((tokens - 1) * 1e9 / rate)
    values: dict[str, Any] = {
        "variant": variant,
        "prompt": prompt,
        "repeat": repeat,
        "place": 0,
        "tokens": tokens,
        "first_token_ns": 1_000_000,
        "last_token_ns": 1_000_000 + decode_ns,
        "total_ns": 2_000_000 + decode_ns,
        "decode_tokens_per_second": decode_rate(tokens, 0, decode_ns),
        "end_to_end_tokens_per_second": end_to_end_rate(tokens, 2_000_000 + decode_ns),
        "rounds": rounds,
        "target_calls": rounds,
        "drafted_tokens": 0 if plain else 3 * rounds,
        "accepted_tokens": 0 if plain else rounds,
        "verified_tokens": tokens - 1,
        "replays": 0,
        "copied_bytes": 0,
        "compute_ns": decode_ns // 2,
        "peak_bytes": 5_000_000,
        "phases_ns": {"prefill": 1_000_000, "draft": 0 if plain else 100_000, "verify": decode_ns // 2, "sample": 10},
        "drafted_histogram": {0 if plain else 3: rounds},
        "accepted_histogram": {0 if plain else 1: rounds},
        "output_sha256": f"output of {prompt}",
    }
    return Sample(**(values | changes))


def chosen_report(rates: Mapping[str, Sequence[Sequence[float]]], **changes: Any) -> BenchReport:
    """Return a report with chosen decode rates: by variant, then by prompt, then by repeat."""
    variants = tuple({"off": OFF, "mtp K=3": MTP, "mtp K=5": WIDE}[name] for name in rates)
    names = [f"prompt {index}" for index in range(len(rates["off"]))]
    plan = fake_plan(
        variants=variants,
        prompts=tuple(Prompt(name=name, text=name) for name in names),
        repeats=len(rates["off"][0]),
        request=RequestSettings(max_tokens=11),
        **{key: changes.pop(key) for key in ("gates", "profile") if key in changes},
    )
    outcome = Outcome(
        prompts=tuple(
            PromptRecord(name=name, sha256="0", tokens=3, tokens_sha256=name, output_sha256=f"output of {name}")
            for name in names
        ),
        variants=tuple(_record(variant) for variant in variants),
        samples=tuple(
            chosen_sample(variant, name, repeat, rate)
            for repeat in range(len(rates["off"][0]))
            for index, name in enumerate(names)
            for variant, by_prompt in rates.items()
            for rate in [by_prompt[index][repeat]]
        ),
        row_costs=RowCosts(
            variant="mtp K=3",
            context_tokens=3,
            costs=tuple(RowCost(rows=rows, median_ns=rows * 1000, samples_ns=(rows * 1000,)) for rows in (1, 2, 3, 4)),
        ),
    )
    return attrs.evolve(make_report(plan, outcome, TARGET, ENVIRONMENT), **changes)


def _record(variant: Variant) -> VariantRecord:
    return VariantRecord(
        name=variant.name,
        strategy=variant.settings.spec,
        draft_max=variant.settings.draft_max or 0,
        scheduler="fixed",
        guarantee="target-authoritative",
        draft=None if variant.plain else DraftRecord(file="draft.gguf", kind="mtp", sha256="cd" * 32),
        settings={"arithmetic": "exact", "threads": 2, "ctx": 512, "verify_rows": 4},
        events=(),
        load_ns=5,
        opened_bytes=None,
    )


def close_all(opener: FakeOpener) -> None:
    """Close what a run left open."""
    for session in opener.sessions:
        with closing(session):
            pass
