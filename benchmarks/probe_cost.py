"""What the exactness probe takes on Gemma-3-270M: when a session opens, in each deeper zone, and once it is cached.

    uv run --group real-model python benchmarks/probe_cost.py [--threads 1 2] [--draft-max 3 7 15] [--write-docs]

Every measurement starts with an empty cache of its own. A request in each zone makes the session measure it; times are
the report's own, by the wall clock, so they want a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from doc_sections import table, write_section
from requantised import gemma

from power_core import open_session
from power_core.whole_file import whole_file

RESULTS = Path(__file__).with_name("results") / "probe_cost.json"
PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
ZONES = {"from 256": 300, "from 512": 600, "from 2048": 2100, "at 255": 254}
"""A zone by its first position, and a prompt's tokens that lead into it alone, or into it as the last one left."""


def measure(model: Path, threads: int, draft_max: int) -> dict[str, Any]:
    """Return milliseconds: ``open`` a new session, each zone of ``ZONES``, and ``open`` again with the cache filled."""
    settings: dict[str, Any] = {"spec": "prompt-lookup", "ctx": 2304, "threads": threads, "draft_max": draft_max}
    settings |= {"verify_rows": draft_max + 1}
    with open_session(model=model, **settings) as session:
        found = {"open": session.plan.probe_ns / 1e6}
        token = session.model.vocabulary.tokenize("the")[-1]
        for zone, prompt_tokens in ZONES.items():
            report = session.generate([token] * prompt_tokens, max_tokens=2).result().report
            found[zone] = report.timings_ns.probe / 1e6 - found["open"]
        widest = session.generate([token] * max(ZONES.values()), max_tokens=2).result().report.probe
    with open_session(model=model, **settings) as session:
        found["open, cached"] = session.plan.probe_ns / 1e6
    return {
        "ms": {name: round(value, 1) for name, value in found.items()},
        "widest_rows": widest and widest.widest_rows,
    }


def document(results: dict[str, Any]) -> str:
    """Return the page's section."""
    lines = [
        [name, *(f"{value:.0f}" for value in found["ms"].values()), str(found["widest_rows"])]
        for name, found in results["cells"].items()
    ]
    first = next(iter(results["cells"].values()))
    header = ["Gemma-3-270M Q4_K_M", *first["ms"], "W"]
    load = results["load_average"]
    note = f"Milliseconds of wall time, load average {load:.1f}. A zone is measured once, then kept in the cache."
    return f"{note}\n\n{table(header, lines)}"


def main() -> None:
    """Measure, print, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--draft-max", type=int, nargs="+", default=[3, 7, 15])
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    model = gemma()
    results: dict[str, Any] = {"load_average": os.getloadavg()[0], "cells": {}}
    for threads in options.threads:
        for draft_max in options.draft_max:
            with tempfile.TemporaryDirectory() as folder:
                os.environ["POWER_CACHE_DIR"] = folder
                name = f"{threads} thread{'s' * (threads > 1)}, slices of {draft_max + 1} rows"
                results["cells"][name] = measure(model, threads, draft_max)
                print(json.dumps({name: results["cells"][name]}), flush=True)
    with whole_file(options.json) as partial:
        partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(document(results))
    if options.write_docs:
        write_section(PAGE, "probe-cost", document(results))


if __name__ == "__main__":
    main()
