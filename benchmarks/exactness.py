"""Complete-output equality of speculative and plain decoding: targets x weights x drafters x arithmetic x threads.

    uv run --group real-model python benchmarks/exactness.py [--zoo examples/zoo/src/power_zoo] [--prompts 100]
        [--tokens 256] [--budget-minutes M] [--write-docs]

The reference is plain decoding in the same process with the same settings. Prompts come in batches that sample every
domain; each batch passes all cells, the most telling first, before the next one begins, and results are kept after
every cell, so a run that stops at its budget has seen as much of the matrix as it could and goes on there next time.
Another build of the library, other prompts or another length start anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from doc_sections import table, write_section
from exactness_cells import Group, Models, groups, load_prompts, prompts_digest, reference, run_cell
from requantised import patches_digest

import power_native
from power_core.whole_file import whole_file

RESULTS = Path(__file__).with_name("results") / "exactness.json"
PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
BATCH_PROMPTS = 6

Results = dict[str, Any]


def load_results(path: Path, header: dict[str, Any]) -> Results:
    """Return the results so far, empty when they are another build's or of other prompts."""
    if path.is_file():
        results: Results = json.loads(path.read_text(encoding="utf-8"))
        if {key: results.get(key) for key in header} == header:
            return results
    return {**header, "cells": {}}


def save_results(path: Path, results: Results) -> None:
    """Replace the file at once; a cell takes one line."""
    cells = {
        group: {drafter: json.dumps(outcomes) for drafter, outcomes in drafters.items()}
        for group, drafters in results["cells"].items()
    }
    text = json.dumps({**results, "cells": cells}, indent=1)
    for drafters in cells.values():
        for line in drafters.values():
            text = text.replace(json.dumps(line), line)
    with whole_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def run_group(
    group: Group, models: Models, prompts: dict[int, str], results: Results, path: Path, until: float
) -> None:
    """Run the cells of a group on the prompts that they lack."""
    lacking = []
    for drafter in models.drafters(group.target):
        cell = _cell(results, group, drafter.name)
        lacking.append((drafter, [index for index in prompts if str(index) not in cell]))
    wanted = {index: text for index, text in prompts.items() if any(index in lack for _, lack in lacking)}
    if not wanted:
        return
    model = models.target(group.target, group.weights)
    known = reference(group, model, wanted, results["tokens"])
    for drafter, lack in lacking:
        if not lack or time.monotonic() > until:
            continue
        outcomes = run_cell(group, drafter, model, {index: known[index] for index in lack}, results["tokens"])
        _cell(results, group, drafter.name).update(outcomes)
        save_results(path, results)
        print(f"{group.name}, {drafter.name}: {summary(outcomes)}", flush=True)


def _cell(results: Results, group: Group, drafter: str) -> dict[str, Any]:
    cell: dict[str, Any] = results["cells"].setdefault(group.name, {}).setdefault(drafter, {})
    return cell


def summary(outcomes: dict[str, Any]) -> str:
    """Return how many outputs equal plain decoding, and how drafting went."""
    equal = sum(outcome["first_difference"] is None for outcome in outcomes.values())
    accepted, drafted = (sum(outcome[name] for outcome in outcomes.values()) for name in ("accepted", "drafted"))
    return f"{equal} of {len(outcomes)} equal, {accepted} of {drafted} drafts accepted"


def tables(results: Results) -> str:
    """Return the page's section: one line per target, weights, threads and sampling."""
    lines: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    drafters: dict[tuple[str, str, str], set[str]] = {}
    for name, cells in results["cells"].items():
        target, arithmetic, threads, sampling = name.split(", ")
        line = (target, threads.split()[0], sampling)
        for drafter, outcomes in cells.items():
            if outcomes:
                lines.setdefault(line, {}).setdefault(arithmetic, []).extend(outcomes.values())
                drafters.setdefault(line, set()).add(drafter.split(",")[0])
    rows = [
        [*line, ", ".join(sorted(drafters[line])), _equal(found.get("exact")), _equal(found.get("fast")), _where(found)]
        for line, found in lines.items()
    ]
    outcomes = [outcome for found in lines.values() for outcome in found.get("exact", [])]
    guarantees = ", ".join(sorted({outcome["guarantee"] for outcome in outcomes}))
    crossed = sum(outcome["end"] > 512 for outcome in outcomes)
    note = (
        f"At most {results['tokens']} tokens an output. Under exact arithmetic {_equal(outcomes)} outputs equal plain "
        f"decoding; {crossed} of them end beyond 512 tokens. Guarantees in their reports: {guarantees or 'none'}."
    )
    header = ["target", "threads", "sampling", "drafters", "exact", "fast", "first differences under fast"]
    return f"{note}\n\n{table(header, rows)}"


def _equal(outcomes: list[dict[str, Any]] | None) -> str:
    if not outcomes:
        return "not run"
    return f"{sum(outcome['first_difference'] is None for outcome in outcomes)} of {len(outcomes)}"


def _where(found: dict[str, list[dict[str, Any]]]) -> str:
    places = sorted(
        outcome["first_difference"] for outcome in found.get("fast", []) if outcome["first_difference"] is not None
    )
    return f"from {places[0]}, median {statistics.median(places):.0f}" if places else "-"


def main() -> None:
    """Run what is missing until the budget ends, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zoo", type=Path, help="folder with target/target.gguf and drafts/")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--budget-minutes", type=float, default=float("inf"))
    parser.add_argument("--only", nargs="+", default=[], help="run groups whose name contains each of these words")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.budget_minutes
    header = {
        "library": power_native.library_info().content_key,
        "patches_sha256": patches_digest(),
        "prompts_sha256": prompts_digest(),
        "tokens": options.tokens,
    }
    results = load_results(options.json, header)
    numbered = list(enumerate(load_prompts(options.prompts)))
    with tempfile.TemporaryDirectory() as folder:
        models = Models(options.zoo, Path(folder))
        chosen = [group for group in groups(models.targets) if all(word in group.name for word in options.only)]
        for start in range(0, len(numbered), BATCH_PROMPTS):
            for group in chosen:
                if time.monotonic() < until:
                    batch = dict(numbered[start : start + BATCH_PROMPTS])
                    run_group(group, models, batch, results, options.json, until)
    results["load_average"] = os.getloadavg()[2]
    save_results(options.json, results)
    print(tables(results))
    if options.write_docs:
        write_section(PAGE, "exactness", tables(results))


if __name__ == "__main__":
    main()
