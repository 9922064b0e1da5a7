"""Who meets whom. Goals are those of a release: the interval of the ratio has to reach them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import power_zoo

from peers.engines import Engine, Setup
from peers.llama_cpp_python_engine import NAME as LLAMA_CPP_PYTHON
from peers.llama_cpp_python_engine import LlamaCppPythonEngine
from peers.llama_server import NAME as LLAMA_SERVER
from peers.llama_server import LlamaServerEngine
from peers.power_engine import PowerEngine
from peers.records import POWER
from peers.runner import Contest, Subject
from peers.workloads import Workload, WorkloadName, read_workload
from peers.xllamacpp_engine import NAME as XLLAMACPP
from peers.xllamacpp_engine import XllamacppEngine

Choice: TypeAlias = Literal["auto", "off"]

SERVERS = (LLAMA_SERVER, XLLAMACPP)
PEERS = (*SERVERS, LLAMA_CPP_PYTHON)
GOAL = 1.0
GOODPUT_GOAL = 1.1

# K for everybody: Power's own defaults. The server tells DFlash2 from DFlash by the file.
SAME_K = {"off": None, "mtp": 3, "dflash": 4, "dflash2": 4, "dspark": 4}
SERVER_STRATEGIES = {
    "off": "none",
    "mtp": "draft-mtp",
    "dflash": "draft-dflash",
    "dflash2": "draft-dflash",
    "dspark": "draft-dspark",
}
GOODPUT_STRATEGIES = ("mtp", "dspark")
SERVER_WIDTHS = (1, 2, 3, 5, 7)
POWER_NGRAMS = ("prompt-lookup", "ngram-context", "ngram-pool")
SERVER_NGRAMS = ("ngram-simple", "ngram-mod")


@attrs.frozen(kw_only=True)
class Options:
    """What the command line chooses.

    Attributes:
        peers: Names of the peers that take part.
        llama_server: The server's program.
        python: An interpreter that has the peers' packages.
        prompts: Most prompts a contest.
        max_tokens: Tokens of an answer, by workload; one that is absent is not run.
    """

    peers: tuple[str, ...]
    llama_server: Path
    python: Path
    threads: int
    prompts: int
    max_tokens: dict[WorkloadName, int]


def contests(options: Options, words: Sequence[str]) -> Iterator[Contest]:
    """Yield the contests whose name has all the words; models are read for those alone."""

    @cache
    def maker(workload: WorkloadName) -> ContestMaker:
        max_tokens = options.max_tokens[workload]
        return ContestMaker(options, read_workload(workload, count=options.prompts, max_tokens=max_tokens))

    for name, workload, make, strategy in ALL:
        if workload in options.max_tokens and all(word in name for word in words):
            yield make(maker(workload), name, strategy)


class ContestMaker:
    """Makes the contests of one workload."""

    def __init__(self, options: Options, workload: Workload) -> None:
        self._options = options
        self._workload = workload

    def same_strategy(self, name: str, strategy: str) -> Contest:
        """Power's exact and fast arithmetic against every peer, all with one strategy and one K.

        Both sides without flash attention, which exact arithmetic needs, are shown beside them.
        """
        draft_max, server = SAME_K[strategy], SERVER_STRATEGIES[strategy]
        draft = power_zoo.draft_path(strategy)
        subjects = [self._power(strategy, draft_max, arithmetic) for arithmetic in ("exact", "fast")]
        subjects.append(self._power(strategy, draft_max, "fast", flash_attention="off"))
        for peer in PEERS if strategy == "off" else SERVERS:
            subjects += self._peer(peer, server, draft_max, draft=draft)
        subjects += self._peer(LLAMA_SERVER, server, draft_max, draft=draft, goal=None, flash_attention="off")
        return self._contest(name, subjects)

    def goodput(self, name: str, strategy: str) -> Contest:
        """The scheduler that chooses its width against each fixed width of the server; its plain decoding is shown."""
        draft, server = power_zoo.draft_path(strategy), SERVER_STRATEGIES[strategy]
        subjects = [self._power(strategy, max(SERVER_WIDTHS), "exact", "goodput")]
        for width in SERVER_WIDTHS:
            subjects += self._peer(LLAMA_SERVER, server, width, draft=draft, goal=GOODPUT_GOAL)
        subjects += self._peer(LLAMA_SERVER, "none", None, goal=None)
        return self._contest(name, subjects)

    def ngrams(self, name: str, _: str) -> Contest:
        """Strategies without weights; the lengths of their drafts are everybody's own defaults."""
        subjects = [self._power(strategy, None, "exact") for strategy in POWER_NGRAMS]
        for peer in SERVERS:
            for strategy in SERVER_NGRAMS:
                subjects += self._peer(peer, strategy, None)
        return self._contest(name, subjects)

    def _contest(self, name: str, subjects: Sequence[Subject]) -> Contest:
        workload = self._workload
        return Contest(
            name=name,
            model=workload.model.name,
            model_sha256=workload.sha256,
            prompts=workload.prompts,
            warmup=workload.warmup,
            max_tokens=workload.max_tokens,
            weight=workload.weight,
            subjects=tuple(subjects),
        )

    def _setup(self, strategy: str, draft_max: int | None, draft: Path | None, flash_attention: Choice) -> Setup:
        return Setup(
            model=self._workload.model,
            strategy=strategy,
            draft=draft,
            draft_max=draft_max,
            threads=self._options.threads,
            ctx_tokens=self._workload.ctx_tokens,
            flash_attention=flash_attention,
        )

    def _power(
        self,
        strategy: str,
        draft_max: int | None,
        arithmetic: Literal["exact", "fast"],
        scheduler: Literal["fixed", "goodput"] = "fixed",
        flash_attention: Choice = "auto",
    ) -> Subject:
        setup = self._setup(strategy, draft_max, power_zoo.draft_path(strategy), flash_attention)
        kind = arithmetic if scheduler == "fixed" else scheduler
        return Subject(
            name=f"{strategy}{width_of(draft_max)} {kind}{suffix(flash_attention)}",
            side=POWER,
            division=suffix(flash_attention),
            strategy=strategy,
            draft_max=draft_max,
            open=lambda: PowerEngine(setup, arithmetic=arithmetic, scheduler=scheduler),
        )

    def _peer(
        self,
        peer: str,
        strategy: str,
        draft_max: int | None,
        *,
        draft: Path | None = None,
        goal: float | None = GOAL,
        flash_attention: Choice = "auto",
    ) -> tuple[Subject, ...]:
        """Return the peer's subject; nothing when the peer does not take part.

        One without a goal is a side of its own: shown, but never the peer's best.
        """
        if peer not in self._options.peers:
            return ()
        name = f"{peer} {strategy}{width_of(draft_max)}{suffix(flash_attention)}"
        subject = Subject(
            name=name,
            side=name if goal is None else peer,
            division=suffix(flash_attention),
            strategy=strategy,
            draft_max=draft_max,
            goal=goal,
            open=self._opener(peer, self._setup(strategy, draft_max, draft, flash_attention)),
        )
        return (subject,)

    def _opener(self, peer: str, setup: Setup) -> Callable[[], Engine]:
        options = self._options
        if peer == LLAMA_SERVER:
            return lambda: LlamaServerEngine(options.llama_server, setup)
        if peer == XLLAMACPP:
            return lambda: XllamacppEngine(options.python, setup)
        return lambda: LlamaCppPythonEngine(options.python, setup)


def width_of(draft_max: int | None) -> str:
    """Return K for a name, nothing without one."""
    return "" if draft_max is None else f" K={draft_max}"


def suffix(flash_attention: Choice) -> str:
    """Return what a name ends with when flash attention is not the engine's own choice."""
    return "" if flash_attention == "auto" else f", flash attention {flash_attention}"


Entry: TypeAlias = tuple[str, WorkloadName, Callable[[ContestMaker, str, str], Contest], str]

ALL: tuple[Entry, ...] = (
    *((f"zoo {each}{width_of(SAME_K[each])}", "zoo", ContestMaker.same_strategy, each) for each in SAME_K),
    *((f"zoo {each}, mixed prompts", "zoo mixed", ContestMaker.goodput, each) for each in GOODPUT_STRATEGIES),
    ("Gemma off", "gemma", ContestMaker.same_strategy, "off"),
    ("Gemma n-grams", "gemma", ContestMaker.ngrams, ""),
)
