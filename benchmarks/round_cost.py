"""Own cost of a verification round: wall time of a round less the time inside llama.cpp and ggml.

    uv run python benchmarks/round_cost.py [--spec mtp dspark ...] [--rounds 10000] [--draft-max 7] [--json FILE]

The clock inside the shim counts llama.cpp and ggml calls of target and drafter; everything else is ours. Measured are
two tiny hybrid targets, 128 and 256 wide, and the zoo: the weights pass through the processor's caches in every round,
and what they push out our code has to fetch again, so a larger target makes the same code slower. Prints median and
99th percentile in microseconds for each, and the median's share of a round; the JSON keeps every sample.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import power_zoo

from power_core import Session, open_session
from power_core.testing.drafts import DraftKind, build_tiny_draft
from power_core.testing.models import build_tiny_target

WIDTHS = (128, 256)
PROMPT = "def fibonacci(n):\n"
TOKENS_PER_REQUEST = 3000


def one_request(session: Session, most_rounds: int) -> list[tuple[float, float]]:
    """Return the own cost and the whole time of each round of one request in microseconds."""
    costs: list[tuple[float, float]] = []
    generation = session.generate(PROMPT, max_tokens=TOKENS_PER_REQUEST)
    next(generation)
    while len(costs) < most_rounds and generation.finish_reason is None:
        rounds, inside_ns, started_ns = generation.report.rounds, session.compute_ns, time.perf_counter_ns()
        next(generation, None)
        elapsed_ns = time.perf_counter_ns() - started_ns
        if generation.report.rounds > rounds:
            costs.append(((elapsed_ns - (session.compute_ns - inside_ns)) / 1e3, elapsed_ns / 1e3))
    return costs


def measure(model: Path, draft: Path | None, spec: str, draft_max: int, rounds: int) -> dict[str, Any]:
    """Return the figures of ``rounds`` rounds on one target, one thread."""
    samples_us: list[tuple[float, float]] = []
    with open_session(model=model, draft=draft, spec=spec, draft_max=draft_max, ctx=4096, threads=1) as session:
        while len(samples_us) < rounds:
            samples_us += one_request(session, rounds - len(samples_us))
    ordered = sorted(cost for cost, _ in samples_us)
    return {
        "model_mb": round(model.stat().st_size / 1e6, 1),
        "rounds": len(ordered),
        "median_us": round(statistics.median(ordered), 1),
        "p99_us": round(ordered[int(len(ordered) * 0.99)], 1),
        "share": round(statistics.median(cost / whole for cost, whole in samples_us), 4),
        "samples_us": [round(cost, 1) for cost, _ in samples_us],
    }


def measure_width(spec: str, width: int, draft_max: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one strategy on a target of one width, with a drafter of its own where it needs one."""
    with tempfile.TemporaryDirectory() as folder:
        model = build_tiny_target(Path(folder) / "target.gguf", kind="hybrid", hidden=width)
        draft = None
        if spec in get_args(DraftKind):
            draft = build_tiny_draft(Path(folder) / "draft.gguf", kind=spec, target="hybrid", hidden=width)
        return {"spec": spec, "width": width, **measure(model, draft, spec, draft_max, rounds)}


def measure_zoo(spec: str, draft_max: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one strategy on the zoo's target, with the zoo's drafter."""
    figures = measure(power_zoo.target_path(), power_zoo.draft_path(spec), spec, draft_max, rounds)
    return {"spec": spec, "width": "zoo", **figures}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--draft-max", type=int, default=7)
    parser.add_argument("--spec", nargs="+", default=["mtp", *get_args(DraftKind)])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, Any] = {"draft_max": options.draft_max, "targets": []}
    for spec in options.spec:
        for width in (*WIDTHS, None):
            if width is None:
                target = measure_zoo(spec, options.draft_max, options.rounds)
            else:
                target = measure_width(spec, width, options.draft_max, options.rounds)
            figures["targets"].append(target)
            print(json.dumps({name: value for name, value in target.items() if name != "samples_us"}), flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
