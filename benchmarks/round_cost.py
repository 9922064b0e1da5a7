"""Own cost of a verification round: wall time of a round less the time inside llama.cpp and ggml.

    uv run python benchmarks/round_cost.py [--spec mtp] [--rounds 10000] [--draft-max 7] [--json FILE]

The clock inside the shim counts llama.cpp and ggml calls of target and drafter; everything else is ours. Prints median
and 99th percentile in microseconds; the JSON keeps every sample.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from power_core import Session, open_session

PROMPT = "def fibonacci(n):\n"
TOKENS_PER_REQUEST = 3000


def one_request(session: Session, most_rounds: int) -> list[float]:
    """Return the own cost of each round of one request in microseconds."""
    costs: list[float] = []
    generation = session.generate(PROMPT, max_tokens=TOKENS_PER_REQUEST)
    next(generation)
    while len(costs) < most_rounds and generation.finish_reason is None:
        rounds, inside_ns, started_ns = generation.report.rounds, session.compute_ns, time.perf_counter_ns()
        next(generation, None)
        elapsed_ns = time.perf_counter_ns() - started_ns
        if generation.report.rounds > rounds:
            costs.append((elapsed_ns - (session.compute_ns - inside_ns)) / 1e3)
    return costs


def measure(spec: str, draft_max: int, rounds: int) -> list[float]:
    """Return the own cost of ``rounds`` rounds in microseconds, on the tiny default target with one thread."""
    costs: list[float] = []
    with open_session(spec=spec, draft_max=draft_max, ctx=4096, threads=1) as session:
        while len(costs) < rounds:
            costs += one_request(session, rounds - len(costs))
    return costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--draft-max", type=int, default=7)
    parser.add_argument("--spec", default="mtp")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    samples_us = measure(options.spec, options.draft_max, options.rounds)
    ordered = sorted(samples_us)
    figures = {
        "spec": options.spec,
        "draft_max": options.draft_max,
        "rounds": len(ordered),
        "median_us": round(statistics.median(ordered), 1),
        "p99_us": round(ordered[int(len(ordered) * 0.99)], 1),
    }
    print(json.dumps(figures))
    if options.json:
        figures["samples_us"] = [round(sample, 1) for sample in samples_us]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
