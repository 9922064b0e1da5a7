"""The runs themselves: plain decoding once for reference, warm-up, then every variant of each pair in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from power_core.bench.costs import measure_row_costs
from power_core.bench.identities import text_digest
from power_core.bench.measures import Guard, make_sample, measure, no_guard, tokens_digest
from power_core.bench.plan import BenchPlan, Prompt, Variant, running_order
from power_core.bench.records import PromptRecord, RowCosts, Sample, VariantRecord
from power_core.bench.sessions import SessionPool
from power_core.bench.synthetic import Truth
from power_core.bench.validity import (
    require_same_output,
    require_same_settings,
    require_valid_run,
    require_valid_sample,
)
from power_core.chat import render_chat, tokenize_chat
from power_core.errors import PromptError
from power_core.opening import Progress
from power_core.report import GenerationResult
from power_core.session import Session
from power_core.strategies import OFF
from power_core.tokens import TokenId


@attrs.frozen(kw_only=True)
class Outcome:
    """What the runs gave."""

    prompts: tuple[PromptRecord, ...]
    variants: tuple[VariantRecord, ...]
    samples: tuple[Sample, ...]
    row_costs: RowCosts | None


class PairedRuns:
    """One benchmark's runs.

    Args:
        plan: What to run.
        open_variant: Opens a session; gets the plain continuations of the prompts too, which are filled in before the
            first run that is not plain.
        progress: Gets ``(phase, done, total)`` before each run.
        guard: Surrounds each run.
    """

    def __init__(
        self,
        plan: BenchPlan,
        open_variant: Callable[[Variant, Truth], Session],
        *,
        progress: Progress | None = None,
        guard: Guard = no_guard,
    ) -> None:
        self._plan = plan
        self._truth: dict[tuple[TokenId, ...], Sequence[TokenId]] = {}
        self._pool = SessionPool(plan.variants, lambda variant: open_variant(variant, self._truth), plan.sessions)
        self._progress = progress or (lambda phase, done, total: None)
        self._guard = guard
        self._tokens: dict[str, list[TokenId]] = {}
        self._firsts: dict[tuple[str, str], Sample] = {}
        self._warmups_done = 0

    def run(self) -> Outcome:
        """Open, run, close.

        Raises:
            Cancelled, BenchError, ConfigError: see ``run_bench``.
        """
        plan, names = self._plan, [variant.name for variant in self._plan.variants]
        with self._pool:
            require_same_settings(self._pool.records.values())
            prompts = self._run_plain()
            if not self._pool.fresh:
                self._warm_up(names)
            samples = self._run_pairs(names)
            row_costs = self._measure_row_costs() if plan.row_costs else None
        require_same_settings(self._pool.records.values())
        records = tuple(self._pool.records[name] for name in names)
        return Outcome(prompts=prompts, variants=records, samples=tuple(samples), row_costs=row_costs)

    def _run_plain(self) -> tuple[PromptRecord, ...]:
        """Decode every prompt plainly: the reference of every output, and plain decoding's first warm-up."""
        with self._pool.use(OFF) as session:
            for prompt in self._plan.prompts:
                self._tokens[prompt.name] = self._tokenize(session, prompt)
            return tuple(self._run_reference(session, prompt) for prompt in self._plan.prompts)

    def _run_reference(self, session: Session, prompt: Prompt) -> PromptRecord:
        self._count_warmup()
        tokens = self._tokens[prompt.name]
        result, _ = self._run(session, OFF, prompt.name, repeat=0, place=0)
        self._truth[tuple(tokens)] = result.tokens
        return PromptRecord(
            name=prompt.name,
            sha256=text_digest(prompt.text),
            tokens=len(tokens),
            tokens_sha256=tokens_digest(tokens),
            output_sha256=tokens_digest(result.tokens),
        )

    def _warm_up(self, names: Sequence[str]) -> None:
        for turn in range(self._plan.warmups):
            for name in names:
                if name == OFF and turn == 0:
                    continue
                with self._pool.use(name) as session:
                    for prompt in self._plan.prompts:
                        self._count_warmup()
                        self._run(session, name, prompt.name, repeat=0, place=0)

    def _run_pairs(self, names: Sequence[str]) -> list[Sample]:
        samples: list[Sample] = []
        total = self._plan.pairs * len(names)
        for repeat in range(self._plan.repeats):
            for number, prompt in enumerate(self._plan.prompts):
                for place, name in enumerate(running_order(names, repeat + number)):
                    self._progress("bench", len(samples), total)
                    samples.append(self._run_measured(name, prompt.name, repeat, place))
        return samples

    def _run_measured(self, name: str, prompt: str, repeat: int, place: int) -> Sample:
        with self._pool.use(name) as session:
            for _ in range(self._plan.warmups if self._pool.fresh else 0):
                self._run(session, name, prompt, repeat=repeat, place=place)
            return self._run(session, name, prompt, repeat=repeat, place=place)[1]

    def _run(
        self, session: Session, name: str, prompt: str, *, repeat: int, place: int
    ) -> tuple[GenerationResult, Sample]:
        """Run once, refuse what proves nothing, also in a warm-up."""
        result, times, peak = measure(session, self._tokens[prompt], self._plan.request, self._guard)
        require_valid_run(f"{name}, {prompt!r}", result, times, self._plan.request.max_tokens)
        sample = make_sample(result, times, peak, variant=name, prompt=prompt, repeat=repeat, place=place)
        require_valid_sample(sample, self._plan.request.max_tokens)
        require_same_output(self._firsts.setdefault((name, prompt), sample), sample)
        return result, sample

    def _tokenize(self, session: Session, prompt: Prompt) -> list[TokenId]:
        if self._plan.chat:
            rendered = render_chat(session.model, [{"role": "user", "content": prompt.text}])
            tokens = tokenize_chat(session.model, rendered)
        else:
            tokens = session.model.vocabulary.tokenize(prompt.text)
        max_tokens = self._plan.request.max_tokens
        room = session.context.ctx_tokens - max_tokens
        if not 1 <= len(tokens) <= room:
            raise PromptError(
                f"prompt {prompt.name!r} has {len(tokens)} tokens, expected at least 1, and with {max_tokens} "
                f"generated ones at most the context's {session.context.ctx_tokens}",
                field="prompts",
                value=len(tokens),
                allowed=f"1..{room}",
                hint="shorten the prompt, lower --max-tokens or take a larger --ctx",
            )
        return tokens

    def _measure_row_costs(self) -> RowCosts:
        """Measure on the session with the widest slices, with the first prompt for context."""
        widest = max(self._pool.records.values(), key=lambda record: int(record.settings["verify_rows"]))
        with self._pool.use(widest.name) as session:
            return measure_row_costs(session, widest.name, self._tokens[self._plan.prompts[0].name])

    def _count_warmup(self) -> None:
        n_prompts, n_variants = len(self._plan.prompts), len(self._plan.variants)
        repeats = 0 if self._pool.fresh else max(0, self._plan.warmups * n_variants - 1)
        self._progress("warm-up", self._warmups_done, n_prompts * (1 + repeats))
        self._warmups_done += 1
