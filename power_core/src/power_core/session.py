"""A session: an open target, its drafter, and one sequence that requests run on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from numbers import Integral
from types import TracebackType
from typing import Any

import attrs
import numpy as np

from power_core.deferred_feeding import MOST_OWED_ROWS, DeferredFeeding
from power_core.drafter import Drafter
from power_core.errors import PromptError, StateError, out_of_range
from power_core.exactness.guarantor import Guarantor
from power_core.generation import Generation, only_one_thread
from power_core.logprobs import RecordingSampler
from power_core.report import DraftRecord, ProbeRecord, Report, Timings
from power_core.sampler import Sampler, SamplingSettings
from power_core.scheduling import Decision, DraftScheduler, FixedScheduler, SchedulerSource
from power_core.sequence import TargetSequence
from power_core.settings import RequestSettings, SessionSettings
from power_core.target import TargetContext, TargetModel
from power_core.tokens import TokenId
from power_core.transaction import Round
from power_core.whole_rounds import offered_rounds


@attrs.frozen(kw_only=True)
class SessionPlan:
    """What was decided while opening.

    Attributes:
        strategy: Canonical name of what runs.
        draft_max: K in force.
        slice_rows: Rows per verification slice (N).
        guard_rows: Rollback window when a block may exceed it, else None.
        rollback_tokens: S in force: drafts that may be rejected without a replay; None for K.
        checkpoint_rows: Rows beyond which a round copies a checkpoint, None when it never does.
        guarantee: See ``Report.guarantee``; what holds for a short greedy request.
        probe: See ``Report.probe``.
        probe_ns: What measuring took while opening.
        draft: The external draft and what vouches for it, None without one.
        events: Decisions to be shown in every report.
    """

    strategy: str
    draft_max: int
    slice_rows: int
    guard_rows: int | None = None
    rollback_tokens: int | None = None
    checkpoint_rows: int | None = None
    guarantee: str = "target-authoritative"
    probe: ProbeRecord | None = None
    probe_ns: int = 0
    draft: DraftRecord | None = None
    load_ns: int = 0
    events: tuple[dict[str, Any], ...] = ()
    shown: dict[str, Any] = attrs.field(factory=dict)


class Session:
    """Runs requests one after another on one sequence. A context manager; used by one thread at a time."""

    def __init__(
        self,
        *,
        settings: SessionSettings,
        plan: SessionPlan,
        model: TargetModel,
        context: TargetContext,
        drafter: Drafter | None,
        taps: bool,
        resources: ExitStack,
        guarantor: Guarantor | None = None,
    ) -> None:
        self.settings = settings
        self.plan = plan
        self.model = model
        self.context = context
        self._drafter = drafter
        self._fed_drafter = drafter
        if drafter is not None and settings.scheduler != "fixed":
            self._fed_drafter = DeferredFeeding(drafter, min(MOST_OWED_ROWS, context.ubatch_rows))
        self._rounds = offered_rounds(self._fed_drafter, context)
        self._taps = taps
        self._resources = resources
        self._guarantor = guarantor
        self._schedulers = SchedulerSource(
            settings.scheduler,
            draft_max=plan.draft_max,
            draft_min=settings.draft_min,
            rollback_tokens=plan.draft_max if plan.rollback_tokens is None else plan.rollback_tokens,
            guard_rows=plan.guard_rows,
        )
        self._sequence = TargetSequence(
            context, slice_rows=plan.slice_rows, taps=taps, fixed_shape=settings.verify_shape == "fixed"
        )
        self._scheduler: DraftScheduler | None = None
        self._sampler: Sampler | None = None
        self._grammar = False
        self._parts: Round | None = None
        self._current: Generation | None = None
        self._closed = False
        self._gate = threading.RLock()

    @property
    def strategy(self) -> str:
        """Canonical name of the strategy that runs."""
        return self.plan.strategy

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the backend's compute so far, the drafter's included where it tells."""
        return self.context.compute_ns + int(getattr(self._drafter, "compute_ns", 0))

    @property
    def committed_tokens(self) -> tuple[TokenId, ...]:
        """Tokens in the target's memory: the prompt and what was committed after it."""
        return tuple(self._sequence.history[:-1])

    def generate(
        self,
        prompt: str | Sequence[TokenId],
        request: RequestSettings | None = None,
        *,
        parse_special: bool = False,
        on_prefill: Callable[[int, int], None] | None = None,
        **changes: Any,
    ) -> Generation:
        """Start a request; iterate the result for text pieces, or call its ``result()``.

        A refused request leaves the last one as it was: that can go on.

        Args:
            prompt: Text, tokenized with the model's own rules, or token ids taken as they are.
            request: Limits and sampling.
            parse_special: Let control tokens written in the text become tokens (chat templates need it).
            on_prefill: Called with (done, total) prompt tokens.
            **changes: Fields of ``request`` to override, sampling fields included.

        Raises:
            PromptError: the prompt is empty or does not fit into the context.
            ConfigError: the sampling cannot be had (a grammar with a fault, say).
            StateError: the session is closed.
        """
        with only_one_thread(self._gate, "generate"):
            self._require_open("generate")
            request = merge_request(request or RequestSettings(), changes)
            tokens = self._prompt_tokens(prompt, parse_special=parse_special)
            self._replace_sampler(request)
            self._retire_current()
            self._sequence.forget()
            return self._launch(request, tokens, on_prefill)

    def resume(self, request: RequestSettings | None = None, **changes: Any) -> Generation:
        """Continue the last request from its last committed token, with its sampler's and its scheduler's state.

        Tokens that were committed but not handed out come first. Sampling settings and ``logprobs`` stay those of the
        last request; text, stop strings and stop tokens start afresh, and so does the report. After an end token it
        ends there again at once.

        Raises:
            StateError: there is nothing to continue.
        """
        with only_one_thread(self._gate, "resume"):
            self._require_open("resume")
            if self._sampler is None or not self._sequence.history:
                raise StateError(
                    "there is no request to continue",
                    state="empty",
                    operation="resume",
                    hint="call `generate(prompt)` first",
                )
            self._retire_current()
            return self._launch(merge_request(request or RequestSettings(), changes), None, None)

    def close(self) -> None:
        """Close drafter, context and model, in that order; safe to call twice.

        Raises:
            StateError: another thread is inside the session; nothing was closed.
        """
        with only_one_thread(self._gate, "close"):
            self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._retire_current()
            if self._sampler is not None:
                self._sampler.close()
            self._resources.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _launch(
        self, request: RequestSettings, prompt: list[TokenId] | None, on_prefill: Callable[[int, int], None] | None
    ) -> Generation:
        assert self._parts is not None
        if self._parts.open_transaction is not None:
            self._parts.open_transaction.rollback()
        self.context.clear_abort()
        self._report = self._new_report(prompt)
        self._current = Generation(
            model=self.model,
            parts=self._parts,
            scheduler=self._next_scheduler(new_request=prompt is not None),
            request=request,
            report=self._report,
            draft_min=self.settings.draft_min,
            draft_p_min=self.settings.draft_p_min,
            prompt=prompt,
            on_prefill=on_prefill,
            gate=self._gate,
            grammar=self._grammar,
            records=self._sampler.records if isinstance(self._sampler, RecordingSampler) else None,
        )
        return self._current

    def _next_scheduler(self, *, new_request: bool) -> DraftScheduler:
        """Return the scheduler of a new or resumed request, none that drafts when it goes without its drafter."""
        assert self._parts is not None
        if self._drafter is not None and self._parts.drafter is None:
            self._note_decision(Decision(width_tokens=0, reason="no-drafter", final=True))
            self._scheduler = FixedScheduler(0)
        elif new_request:
            self._scheduler = self._schedulers.open(self._note_decision)
        assert self._scheduler is not None
        return self._scheduler

    def _note_decision(self, decision: Decision) -> None:
        """Tell the report of the request that runs, for a scheduler outlives a report when its request is resumed.

        Where the decision says so, the drafter is left out from then on.
        """
        assert self._parts is not None
        self._report.add_decision(decision)
        if decision.without_drafter:
            self._parts.leave_drafter_out()

    def _new_report(self, prompt: list[TokenId] | None) -> Report:
        guarantee, probe = self.plan.guarantee, self.plan.probe
        if self._guarantor is not None:
            guarantee, probe = self._guarantor.stance.guarantee, self._guarantor.record()
        return Report(
            strategy=self.plan.strategy,
            guarantee=guarantee,
            probe=probe,
            draft=self.plan.draft,
            prompt_tokens=len(prompt) if prompt is not None else self._sequence.prompt_tokens,
            settings=dict(self.plan.shown),
            events=[dict(event) for event in self.plan.events],
            timings_ns=Timings(load=self.plan.load_ns, probe=self.plan.probe_ns),
        )

    def _prompt_tokens(self, prompt: str | Sequence[TokenId], *, parse_special: bool) -> list[TokenId]:
        if not isinstance(prompt, str | Sequence | np.ndarray) or isinstance(prompt, bytes | bytearray):
            raise PromptError(
                f"the prompt is of type {type(prompt).__name__}, expected text or a sequence of token ids",
                field="prompt",
            )
        if isinstance(prompt, str):
            tokens = self.model.vocabulary.tokenize(prompt, parse_special=parse_special) if prompt else []
        else:
            tokens = [token.item() if isinstance(token, np.integer) else token for token in prompt]
            n_vocab = self.model.info.n_vocab
            for token in tokens:
                if not isinstance(token, Integral) or not 0 <= token < n_vocab:
                    raise PromptError(
                        f"the prompt holds token {token!r}, the vocabulary has ids 0..{n_vocab - 1}",
                        field="prompt",
                        value=token,
                    )
        if not tokens:
            raise PromptError(
                "the prompt is empty", field="prompt", value=prompt, hint="give at least one character of text"
            )
        if len(tokens) > self.context.ctx_tokens:
            raise PromptError(
                f"the prompt has {len(tokens)} tokens, the context holds {self.context.ctx_tokens}",
                field="prompt",
                value=len(tokens),
                allowed=f"1..{self.context.ctx_tokens}",
                hint="shorten the prompt or take a larger context (`ctx`, `--ctx`, `num_ctx`)",
            )
        return tokens

    def _replace_sampler(self, request: RequestSettings) -> None:
        sampling = request.sampling
        if request.logprobs is not None and self.settings.device_sampling == "on":
            raise out_of_range(
                "logprobs",
                request.logprobs,
                "none with `device_sampling`, which keeps logits away",
                hint="leave out `logprobs`, or open the session with `device_sampling` off",
            )
        sampler = self.context.open_sampler(sampling)
        if request.logprobs is not None:
            sampler = RecordingSampler(sampler, self.context, request.logprobs)
        if self._sampler is not None:
            self._sampler.close()
        self._sampler = sampler
        self._grammar = sampling.has_grammar
        drafter = self._fed_drafter if self._schedulers.drafts_in_next_request() else None
        self._sequence.taps = self._taps and drafter is not None
        self._parts = Round(self._sequence, self._sampler, drafter, self.model.info.n_vocab)
        self._parts.checkpoint_rows = self.plan.checkpoint_rows
        self._parts.guarantor = self._guarantor
        if drafter is not None and self._rounds is not None and self._rounds.draws_with(sampler):
            self._parts.rounds = self._rounds
        if self._guarantor is not None:
            self._sequence.slice_rows = self._guarantor.begin(greedy=sampling.greedy).slice_rows

    def _retire_current(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

    def _require_open(self, operation: str) -> None:
        if self._closed:
            raise StateError("the session is closed", state="closed", operation=operation, hint="open a new session")


def merge_request(request: RequestSettings, changes: dict[str, Any]) -> RequestSettings:
    """Apply keyword arguments to request and sampling fields; unknown names raise ``TypeError`` as Python does."""
    sampling_names = {field.name for field in attrs.fields(SamplingSettings)}
    sampling = {name: value for name, value in changes.items() if name in sampling_names}
    rest = {name: value for name, value in changes.items() if name not in sampling_names}
    if isinstance(rest.get("stop"), str):
        rest["stop"] = (rest["stop"],)
    if sampling:
        rest["sampling"] = attrs.evolve(rest.get("sampling", request.sampling), **sampling)
    return attrs.evolve(request, **rest) if rest else request
