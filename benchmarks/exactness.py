"""Complete-output equality of speculative and plain decoding: targets x weights x drafters x arithmetic x threads.

    uv run --group real-model python benchmarks/exactness.py [--zoo examples/zoo/src/power_zoo] [--tokens 256]
        [--prompts 100] [--all] [--budget-minutes M] [--write-docs]

The reference is plain decoding in the same process with the same settings, decoded once per group and shared by its
drafters. ``exactness_plan.py`` says which prompts a group decodes; ``--all`` decodes all in every group. Results are
kept after every cell, so a run that stops at its budget goes on there next time. Other patches of the library, prompts
or another length start anew; a rebuild of the same library does not.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs
from doc_sections import write_section
from exactness_cells import Group, Models, load_prompts, prompts_digest, reference, run_cell
from exactness_plan import PASSES, assigned, groups, prompts_of
from exactness_tables import tables
from requantised import patches_digest
from result_files import load_results, save_results

import power_native

RESULTS = Path(__file__).with_name("results") / "exactness.json"
PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
LEVELS = 3

Results = dict[str, Any]


@attrs.frozen(kw_only=True)
class Run:
    """What all groups of a run share.

    Attributes:
        until: Moment of the monotonic clock at which no cell begins any more.
    """

    models: Models
    prompts: dict[int, str]
    results: Results
    path: Path
    until: float
    everything: bool

    def group(self, number: int, group: Group, share: float) -> None:
        """Run the cells of a group on the first ``share`` of its prompts, as far as they lack them."""
        drafters = {drafter.name: drafter for drafter in self.models.drafters(group.target)}
        chosen = prompts_of(number, group, len(self.prompts), everything=self.everything)
        wanted = assigned(number, group, list(drafters), chosen[: max(1, round(share * len(chosen)))])
        lacking = {
            name: [each for each in wanted[name] if str(each) not in self._cell(group, name)] for name in drafters
        }
        needed = sorted({index for lack in lacking.values() for index in lack})
        if not needed or time.monotonic() > self.until:
            return
        model = self.models.target(group.target, group.weights)
        tokens = self.results["tokens"]
        known = reference(group, model, {index: self.prompts[index] for index in needed}, tokens)
        for name, lack in lacking.items():
            if lack and time.monotonic() < self.until:
                outcomes = run_cell(group, drafters[name], model, {index: known[index] for index in lack}, tokens)
                self._cell(group, name).update(outcomes)
                save_results(self.path, self.results, LEVELS)
                print(f"{group.name}, {name}: {summary(outcomes)}", flush=True)

    def _cell(self, group: Group, drafter: str) -> dict[str, Any]:
        cell: dict[str, Any] = self.results["cells"].setdefault(group.name, {}).setdefault(drafter, {})
        return cell


def summary(outcomes: dict[str, Any]) -> str:
    """Return how many outputs equal plain decoding, and how drafting went."""
    equal = sum(outcome["first_difference"] is None for outcome in outcomes.values())
    accepted, drafted = (sum(outcome[name] for outcome in outcomes.values()) for name in ("accepted", "drafted"))
    return f"{equal} of {len(outcomes)} equal, {accepted} of {drafted} drafts accepted"


def main() -> None:
    """Run what is missing until the budget ends, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zoo", type=Path, help="folder with target/target.gguf and drafts/")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--all", action="store_true", help="all prompts in every group, not only the plan's share")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--budget-minutes", type=float, default=float("inf"))
    parser.add_argument("--only", nargs="+", default=[], help="run groups whose name contains each of these words")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    header = {"patches_sha256": patches_digest(), "prompts_sha256": prompts_digest(), "tokens": options.tokens}
    results = load_results(options.json, header)
    results["library"] = power_native.library_info().content_key
    started, until = time.process_time(), time.monotonic() + 60 * options.budget_minutes
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            models=Models(options.zoo, Path(folder)),
            prompts=dict(enumerate(load_prompts(options.prompts))),
            results=results,
            path=options.json,
            until=until,
            everything=options.all,
        )
        for share in PASSES:
            for number, group in enumerate(groups(run.models.targets)):
                if all(word in group.name for word in options.only):
                    run.group(number, group, share)
    results["load_average"] = os.getloadavg()[2]
    results["cpu_minutes"] = round(results.get("cpu_minutes", 0.0) + (time.process_time() - started) / 60, 1)
    save_results(options.json, results, LEVELS)
    print(tables(results))
    if options.write_docs:
        write_section(PAGE, "exactness", tables(results))


if __name__ == "__main__":
    main()
