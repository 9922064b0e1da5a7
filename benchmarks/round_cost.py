"""Own cost of a verification round: wall time of a round less the time inside llama.cpp and ggml.

    uv run python benchmarks/round_cost.py [--rounds 10000] [--draft-max 7] [--json FILE]

The clock inside the shim counts llama.cpp and ggml calls of target and drafter; everything else is ours.
Prints median and 99th percentile in microseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from power_core import open_session
from power_core.session import Session


def compute_ns(session: Session) -> int:
    """Nanoseconds inside llama.cpp so far, target and drafter."""
    drafter = session._drafter
    return session.context.compute_ns + getattr(drafter, "compute_ns", 0)


def measure(spec: str, draft_max: int, rounds: int) -> list[float]:
    """Return the own cost of each round in microseconds."""
    costs: list[float] = []
    with open_session(spec=spec, draft_max=draft_max, ctx=4096, threads=1) as session:
        while len(costs) < rounds:
            generation = session.generate("def fibonacci(n):\n", max_tokens=3000)
            next(generation)
            while len(costs) < rounds:
                inside, started_ns, before = compute_ns(session), time.perf_counter_ns(), generation.report.rounds
                try:
                    next(generation)
                except StopIteration:
                    break
                if generation.report.rounds > before:
                    elapsed = time.perf_counter_ns() - started_ns
                    costs.append((elapsed - (compute_ns(session) - inside)) / 1e3)
    return costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--draft-max", type=int, default=7)
    parser.add_argument("--spec", default="mtp")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    costs = sorted(measure(options.spec, options.draft_max, options.rounds))
    figures = {
        "spec": options.spec,
        "draft_max": options.draft_max,
        "rounds": len(costs),
        "median_us": round(statistics.median(costs), 1),
        "p99_us": round(costs[int(len(costs) * 0.99)], 1),
    }
    print(json.dumps(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
