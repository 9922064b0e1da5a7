"""Greedy parity of the block drafters with plain decoding: kinds x targets x weights x draft widths x ubatch sizes.

    uv run python benchmarks/block_parity.py [--kinds dspark ...] [--jobs 2] [--prompts 30] [--tokens 150] [--json FILE]

Every configuration decodes each prompt once: a third of them with the drafter's own proposals, the others with
proposals that are right for a random number of tokens, 0 to the width, while the drafter's own state stays as dirty as
in real use. The reference is plain decoding in the same process with the same settings. Results are kept after each
pair of models, so a run that was stopped goes on where it was; another build of the library or another size starts
anew.

A recurrent target needs a ubatch of two rows more than it has snapshots: there, 1 and 7 stand for the smallest ubatch
with one snapshot (3) and for five snapshots.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args

import attrs
from result_files import load_results, save_results

import power_native
from power_core.artifacts import scan_header
from power_core.testing.drafts import DraftKind, build_tiny_draft
from power_core.testing.models import build_tiny_target
from power_core.testing.parity import Truth, reference, run_parity, text_prompts
from power_native.quantize import quantize

BLOCK_SIZE_ROWS = 8
UBATCHES = (1, 7, 32, 512)
TARGETS = ("hybrid", "attention")
WEIGHTS = ("F32", "F16", "Q8_0", "Q4_K", "quantised-head")
RESULTS = Path(__file__).with_name("results") / "block_parity.json"
LEVELS = 2

Target = Literal["hybrid", "attention"]


@attrs.frozen(kw_only=True)
class Models:
    """One target and one drafter for it, with the weights of one type."""

    kind: DraftKind
    target: Target
    weights: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.target} {self.weights}"

    @property
    def widths(self) -> range:
        return range(1, BLOCK_SIZE_ROWS + (self.kind == "dspark"))

    def build(self, folder: Path) -> tuple[Path, Path]:
        """Write both files, quantised where the weights ask for it."""
        dtype = self.weights if self.weights in ("F32", "F16", "Q8_0") else "F32"
        head = {"own_head": True, "head_dtype": "Q8_0"} if self.weights == "quantised-head" else {}
        target = build_tiny_target(folder / "target.gguf", kind=self.target, dtype=dtype, seed=3)
        draft = build_tiny_draft(
            folder / "draft.gguf",
            kind=self.kind,
            target=self.target,
            dtype=dtype,
            block_size_rows=BLOCK_SIZE_ROWS,
            **head,
        )
        if self.weights == "Q4_K":
            target, draft = (_requantised(path) for path in (target, draft))
        return target, draft


def settings(target: Target, width: int, ubatch: int) -> dict[str, Any]:
    """Return the session settings of one configuration."""
    common = {"ctx": 512, "batch": 512, "threads": 1}
    if target == "attention":
        return {**common, "ubatch": ubatch}
    snapshots = min(width, {1: 1, 7: 5}.get(ubatch, width), 7)
    return {**common, "snapshots": snapshots, "ubatch": max(ubatch, snapshots + 2)}


def run_models(models: Models, done: set[str], prompts: int, tokens: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the outcome of every configuration of one pair of models that is not done yet."""
    with tempfile.TemporaryDirectory() as folder:
        target, draft = models.build(Path(folder))
        truths: dict[int, Truth] = {}
        for width, ubatch in itertools.product(models.widths, UBATCHES):
            name = f"{models.name} K={width} ubatch={ubatch}"
            if name in done:
                continue
            wanted = settings(models.target, width, ubatch)
            if wanted["ubatch"] not in truths:
                plain = {key: value for key, value in wanted.items() if key != "snapshots"}
                truths[wanted["ubatch"]] = reference(target, text_prompts(prompts, seed=11), tokens, **plain)
            yield name, _run_both(target, draft, models.kind, truths[wanted["ubatch"]], draft_max=width, **wanted)


def _run_both(target: Path, draft: Path, kind: str, truth: Truth, **wanted: Any) -> dict[str, Any]:
    started = time.monotonic()
    outcome: dict[str, Any] = {"settings": wanted, "draft_types": _tensor_types(draft)}
    prompts = list(truth.items())
    own = dict(prompts[: -(-len(prompts) // 3)])
    rest = {prompt: tokens for prompt, tokens in prompts if prompt not in own}
    for mode, forced, part in (("own", None, own), ("forced", "partial", rest)):
        run = run_parity(target, part, forced, kind, draft=draft, **wanted)
        outcome[mode] = {
            "equal": run.prompts - len(run.differing),
            "prompts": run.prompts,
            "emitted": run.emitted_tokens,
            "drafted": run.drafted_tokens,
            "accepted": run.accepted_tokens,
            "rounds": run.rounds,
        }
    return {**outcome, "seconds": round(time.monotonic() - started, 1)}


def _tensor_types(path: Path) -> dict[str, int]:
    return dict(Counter(tensor.type_name for tensor in scan_header(path).tensors.values()))


def _requantised(path: Path) -> Path:
    quantised = path.with_name(f"q4-{path.name}")
    quantize(path, quantised, "Q4_K_M", threads=1)
    return quantised


def _run_to_list(models: Models, done: set[str], prompts: int, tokens: int) -> list[tuple[str, dict[str, Any]]]:
    return list(run_models(models, done, prompts, tokens))


def main() -> None:
    """Run what is missing, then print one line per pair of models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=get_args(DraftKind), default=get_args(DraftKind))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    header = {"library": power_native.library_info().content_key, "prompts": options.prompts, "tokens": options.tokens}
    results = load_results(options.json, header)
    pairs = [
        Models(kind=kind, target=target, weights=weights)
        for weights, kind, target in itertools.product(WEIGHTS, options.kinds, TARGETS)
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        done = set(results["cells"])
        jobs = [pool.submit(_run_to_list, models, done, options.prompts, options.tokens) for models in pairs]
        for models, job in zip(pairs, jobs, strict=True):
            results["cells"] |= dict(job.result())
            save_results(options.json, results, LEVELS)
            print(summary(models.name, results["cells"]), flush=True)


def summary(name: str, cells: dict[str, Any]) -> str:
    """Return one line about the configurations of one pair of models."""
    runs = [outcome[mode] for key, outcome in cells.items() if key.startswith(f"{name} ") for mode in ("own", "forced")]
    equal, prompts = sum(run["equal"] for run in runs), sum(run["prompts"] for run in runs)
    return f"{name}: {equal} of {prompts} outputs equal plain decoding, {len(runs)} runs"


if __name__ == "__main__":
    main()
