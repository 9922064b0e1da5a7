"""Schedulers on simulated rounds: what each makes of a cost curve and an acceptance pattern, the same on every machine.

    uv run python benchmarks/schedulers.py [--tokens 750] [--requests 4] [--json FILE]

Each row is a machine and a pattern; rates are tokens per second of simulated time, relative to ``off``. The best fixed
width is chosen in hindsight, for that row alone. Cost curves are medians measured on two cores, and two idealised ones:
rows that cost nearly nothing, as on a device with room to spare, and rows that cost as much as single ones.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from power_core.scheduling import SchedulerSource
from power_core.testing.simulated_rounds import Acceptance, Machine, simulate

DRAFT_MAX = 7
SEEDS = (0, 1, 2)
ZOO_TARGET: dict[str, Any] = {
    "verify_ms": {1: 0.134, 2: 0.205, 3: 0.262, 4: 0.303, 6: 0.402, 8: 0.518},
    "start_ms": (0.34, 0.1, 0.06, 0.05, 0.02, 0.015, 0.01),
    "change_ms": (0.13, 0.03, 0.01),
    "noise": 0.03,
}
GEMMA_TARGET: dict[str, Any] = {
    "verify_ms": {1: 12.5, 2: 18.0, 3: 19.0, 4: 20.5, 6: 23.4, 8: 27.5},
    "start_ms": (8.0, 7.0, 4.0, 1.0),
    "change_ms": (1.0, 0.3),
    "noise": 0.03,
}
MACHINES = {
    "Q4_K_M, block drafter": Machine(
        verify_ms={1: 11.5, 2: 24.8, 3: 27.1, 4: 29.2, 5: 45.8, 8: 47.0}, draft_ms=(2.0, 0.0), noise=0.03
    ),
    "Q4_K_M, slices of 4": Machine(
        verify_ms={1: 11.5, 2: 24.8, 3: 27.1, 4: 29.2}, draft_ms=(2.0, 0.0), slice_rows=4, noise=0.03
    ),
    "F16, chained drafter": Machine(
        verify_ms={1: 18.0, 2: 31.5, 3: 33.2, 4: 34.1, 5: 35.8, 8: 49.1}, draft_ms=(0.0, 1.5), noise=0.03
    ),
    "tiny hybrid, block drafter": Machine(
        verify_ms={1: 0.85, 2: 1.65, 3: 1.99, 4: 2.19, 5: 2.31, 8: 2.55},
        draft_ms=(0.33, 0.0),
        feed_ms=0.08,
        noise=0.03,
    ),
    "zoo, mtp": Machine(draft_ms=(0.08, 0.04), feed_ms=0.004, owed_ms=0.016, first_draft_ms=4.0, **ZOO_TARGET),
    "zoo, dspark": Machine(draft_ms=(0.13, 0.06), feed_ms=0.004, owed_ms=0.016, **ZOO_TARGET),
    "Gemma, n-grams": Machine(draft_ms=(0.04, 0.0), feed_ms=0.025, **GEMMA_TARGET),
    "Gemma, dflash": Machine(draft_ms=(12.7, 0.8), owed_ms=0.1, **GEMMA_TARGET),
    "nearly free rows": Machine(verify_ms={1: 10.0, 8: 11.0}, draft_ms=(0.5, 0.3), noise=0.03),
    "equally dear rows": Machine(verify_ms={1: 10.0, 8: 80.0}, draft_ms=(0.5, 0.0), noise=0.03),
}
FALLING = (0.95, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2)
PATTERNS: dict[str, Acceptance] = {
    "high 0.92": lambda index, position: 0.92,
    "medium 0.7": lambda index, position: 0.7,
    "low 0.25": lambda index, position: 0.25,
    "none": lambda index, position: 0.0,
    "falling": lambda index, position: FALLING[position],
    "changing": lambda index, position: 0.95 if index // 300 % 2 == 0 else 0.2,
}


def measure(machine: Machine, pattern: Acceptance, seed: int, requests: int, tokens: int) -> dict[str, Any]:
    """Return the rates of one row and one seed relative to ``off``."""

    def rate(name: str, draft_max: int = DRAFT_MAX) -> float:
        source = SchedulerSource(name, draft_max=draft_max, rollback_tokens=draft_max)
        runs_on = machine if draft_max else machine.without_drafter()
        return simulate(
            source, runs_on, pattern, requests=requests, tokens_per_request=tokens, seed=seed
        ).tokens_per_second

    fixed = [rate("fixed", width) for width in range(DRAFT_MAX + 1)]
    rates = {name: rate(name) / fixed[0] for name in ("adaptive", "goodput")}
    best = max(range(len(fixed)), key=fixed.__getitem__)
    return {"seed": seed, "best_width": best, "best": fixed[best] / fixed[0], "K": fixed[-1] / fixed[0], **rates}


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=750)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(
        f"{'machine':28}{'acceptance':12}{'best fixed':>14}{'fixed K':>9}{'adaptive':>10}{'goodput':>9}{'of best':>9}"
    )
    rows = []
    for machine_name, machine in MACHINES.items():
        for pattern_name, pattern in PATTERNS.items():
            runs = [measure(machine, pattern, seed, options.requests, options.tokens) for seed in SEEDS]
            rows.append({"machine": machine_name, "acceptance": pattern_name, "runs": runs})
            run = sorted(runs, key=lambda each: each["goodput"] / each["best"])[0]
            print(
                f"{machine_name:28}{pattern_name:12}{run['best']:9.2f} d={run['best_width']}{run['K']:9.2f}"
                f"{run['adaptive']:10.2f}{run['goodput']:9.2f}{run['goodput'] / run['best']:9.3f}"
            )
    if options.json:
        figures = {"requests": options.requests, "tokens": options.tokens, "draft_max": DRAFT_MAX, "rows": rows}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
