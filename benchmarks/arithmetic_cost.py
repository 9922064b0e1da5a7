"""Cost of exact against fast arithmetic: prefill, one row, and verifying several rows.

    uv run --group real-model python benchmarks/arithmetic_cost.py [--models Q4_K_M F16 ...] [--threads 1 2]
        [--rows 1 2 4 8] [--repeats 15] [--write-docs]

Both arithmetics run in one context on the same weights, in turn, so that what else the machine does meets both: a pair
is one evaluation with each, and the ratio is that of the pair. ``repacked`` is a second load of the model, with the
weights in the layout that llama.cpp chooses by itself; it takes its turn after each pair and is information only.
Every row of an evaluation has logits, as in verification. One thread is timed by its processor time, which other
programs do not add to; several threads by the wall clock, on a quiet machine. Results are kept after each model and
thread count, so a run that was stopped goes on; other patches of the library or other repeats start anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from doc_sections import table, write_section
from requantised import gemma, patches_digest, requantised, tensor_types
from result_files import load_results, save_results

import power_native
from power_core.target import Arithmetic, ContextSettings, Kernels, ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.tokens import SequenceRows
from power_native.context import NativeContext
from power_native.model import NativeModel

RESULTS = Path(__file__).with_name("results") / "arithmetic_cost.json"
PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
WEIGHTS = ("Q4_K_M", "Q8_0", "Q4_0", "F16", "Q6_K", "tiny-hybrid")
ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
DEPTH_TOKENS = 300
PROMPT_TOKENS = 1024
CHUNK_TOKENS = 512
GOALS = {"prefill": 1.03, "1": 1.03, "4": 1.10, "8": 1.15}
FLOOR = 0.95
LEVELS = 4

Action = Callable[[], None]
Clock = Callable[[], int]


@attrs.frozen
class Bench:
    """A context that holds ``DEPTH_TOKENS`` tokens and comes back to them after every evaluation."""

    context: NativeContext
    tokens: list[int]
    kernels: Kernels

    def prefill(self, n_tokens: int) -> None:
        """Evaluate a prompt from the start, in chunks, with the fast kernels that both arithmetics share."""
        self.context.clear()
        for at in range(0, n_tokens, CHUNK_TOKENS):
            rows = SequenceRows(start_pos=at, tokens=self.tokens[at : min(at + CHUNK_TOKENS, n_tokens)], logits="last")
            self.context.evaluate((rows,), kernels="prefill")

    def verify(self, n_rows: int, start_pos: int = DEPTH_TOKENS) -> None:
        """Evaluate rows after what the context holds, all with logits."""
        rows = SequenceRows(start_pos=start_pos, tokens=self.tokens[:n_rows], logits="all")
        self.context.evaluate((rows,), kernels=self.kernels)

    def request(self) -> None:
        """Evaluate a prompt and the first row after it."""
        self.prefill(PROMPT_TOKENS)
        self.verify(1, PROMPT_TOKENS)


@contextmanager
def open_bench(model: Path, threads: int, kernels: Kernels, *, repacked: bool = False) -> Iterator[Bench]:
    """Open a model of its own; the kernels ``prefill`` of an exact model are the fast ones on the same weights."""
    arithmetic: Arithmetic = "fast" if repacked else "exact"
    with NativeModel.open(ModelSettings(path=model, arithmetic=arithmetic), repack_weights=repacked) as loaded:
        settings = ContextSettings(
            ctx_tokens=PROMPT_TOKENS + max(ROWS),
            batch_rows=CHUNK_TOKENS,
            threads=threads,
            snapshots=max(ROWS) if loaded.info.recurrent else 0,
        )
        tokens = np.random.default_rng(0).integers(20, min(loaded.info.n_vocab, 5000), PROMPT_TOKENS).tolist()
        with loaded.open_context(settings) as context:
            yield Bench(context, tokens, kernels)


def paired(measured: dict[str, Action], reset: Action, repeats: int, clock: Clock) -> dict[str, Any]:
    """Time the actions in turn, the first two in alternating order; return medians, quartiles and the pairs' ratio."""
    times_ms: dict[str, list[float]] = {name: [] for name in measured}
    names = list(measured)
    for repeat in range(repeats + 1):
        order = [*(names[:2] if repeat % 2 else names[1::-1]), *names[2:]]
        for name in order:
            started_ns = clock()
            measured[name]()
            times_ms[name].append((clock() - started_ns) / 1e6)
            reset()
    figures: dict[str, Any] = {}
    for name, times in times_ms.items():
        figures[f"{name}_ms"] = round(statistics.median(times[1:]), 3)
        figures[f"{name}_quartiles_ms"] = _quartiles(times[1:])
    ratios = [exact / fast for exact, fast in zip(times_ms["exact"][1:], times_ms["fast"][1:], strict=True)]
    return {**figures, "ratio": round(statistics.median(ratios), 3), "ratio_quartiles": _quartiles(ratios)}


def _quartiles(values: list[float]) -> list[float]:
    return [round(value, 3) for value in np.percentile(values, (25, 75)).tolist()]


def measure(model: Path, threads: int, row_counts: list[int], repeats: int) -> dict[str, Any]:
    """Return the figures of one model with one thread count."""
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    found: dict[str, Any] = {"tensor_types": tensor_types(model), "clock": clock.__name__}
    found |= {"load_before": os.getloadavg()[0], "rows": {}}
    with (
        open_bench(model, threads, "decode") as exact,
        open_bench(model, threads, "decode", repacked=True) as repacked,
    ):
        fast = attrs.evolve(exact, kernels="prefill")
        found["prefill"] = _prefill(exact, fast, repacked, max(3, repeats // 5), clock)
        benches = {"exact": exact, "fast": fast, "repacked": repacked}
        reset = _keep_prefix([exact, repacked])
        for n_rows in row_counts:
            actions = {name: _verify(bench, n_rows) for name, bench in benches.items()}
            found["rows"][str(n_rows)] = paired(actions, reset, repeats, clock)
    found["load_after"] = os.getloadavg()[0]
    return found


def _verify(bench: Bench, n_rows: int) -> Action:
    return lambda: bench.verify(n_rows)


def _prefill(exact: Bench, fast: Bench, repacked: Bench, repeats: int, clock: Clock) -> dict[str, Any]:
    """Time a prompt and the first row after it, so that exact arithmetic switches its kernels twice a prompt."""
    actions = {"exact": exact.request, "fast": fast.request, "repacked": repacked.request}
    figures = paired(actions, lambda: None, repeats, clock)
    return {**figures, **{f"{name}_tok_s": round(1e3 * PROMPT_TOKENS / figures[f"{name}_ms"]) for name in actions}}


def _keep_prefix(benches: list[Bench]) -> Action:
    """Fill the contexts up to the prefix; the action takes them back to it."""
    marks = []
    for bench in benches:
        bench.prefill(DEPTH_TOKENS)
        marks.append((bench.context, bench.context.checkpoint()))

    def reset() -> None:
        for context, mark in marks:
            if context.can_truncate(DEPTH_TOKENS):
                context.truncate(DEPTH_TOKENS)
            else:
                context.restore(mark)

    return reset


def model_path(weights: str, folder: Path) -> Path:
    """Return the model file of one name of ``WEIGHTS``."""
    if weights == "tiny-hybrid":
        return build_tiny_target(folder / "tiny-hybrid.gguf", kind="hybrid")
    return gemma() if weights == "Q4_K_M" else requantised(gemma(), weights)


def tables(results: dict[str, Any]) -> str:
    """Return the page's section: one table of ratios and times."""
    row_counts = [str(rows) for rows in ROWS]
    lines = []
    for name, cell in results["cells"].items():
        prefill = cell["prefill"]
        line = [name, f"{prefill['exact_tok_s']} / {prefill['fast_tok_s']} ({prefill['ratio']:.2f})"]
        for rows in row_counts:
            figures = cell["rows"].get(rows)
            line.append("-" if figures is None else _cell_text(figures))
        lines.append([*line, f"{best_slices(cell):.2f}", _repacked_text(cell)])
    missed = missed_goals(results)
    goals = "Every goal is reached in these cells." if not missed else "Not reached: " + "; ".join(missed) + "."
    loads = [cell[when] for cell in results["cells"].values() for when in ("load_before", "load_after")]
    note = (
        f"{results['machine']}, {results['repeats']} pairs a cell, load average {min(loads):.1f} to {max(loads):.1f}. "
        "Times in ms: exact / fast (median ratio of the pairs); prefill in tokens a second. One thread: processor "
        "time; several: wall clock. Best slice: rows a second at the width that is best for each, exact over fast. "
        "Repacked: time of a second load in the layout that llama.cpp chooses, over fast; prefill, 1 row and 8 rows."
    )
    header = ["model", "prefill", *(f"{rows} rows" for rows in row_counts), "best slice", "repacked"]
    return "\n\n".join([note, table(header, lines), goals])


def _cell_text(figures: dict[str, Any]) -> str:
    return f"{figures['exact_ms']:.1f} / {figures['fast_ms']:.1f} ({figures['ratio']:.2f})"


def _repacked_text(cell: dict[str, Any]) -> str:
    figures = [cell["prefill"], *(cell["rows"][rows] for rows in ("1", "8") if rows in cell["rows"])]
    return " / ".join(f"{found['repacked_ms'] / found['fast_ms']:.2f}" for found in figures)


def best_slices(cell: dict[str, Any]) -> float:
    """Return rows a second at the best width, exact over fast: decoding whose drafts are all accepted."""
    best = {}
    for name in ("exact", "fast"):
        best[name] = max(int(rows) / float(found[f"{name}_ms"]) for rows, found in cell["rows"].items())
    return best["exact"] / best["fast"]


def missed_goals(results: dict[str, Any]) -> list[str]:
    """Return the goals that a cell misses, Gemma's alone: the tiny model's times are the calls' own."""
    missed = []
    for name, cell in results["cells"].items():
        ratios = {"prefill": cell["prefill"]["ratio"]} | {rows: found["ratio"] for rows, found in cell["rows"].items()}
        for goal, most in GOALS.items():
            if not name.startswith("tiny") and ratios.get(goal, 0) > most:
                missed.append(f"{name}, {goal}: {ratios[goal]:.2f} of at most {most:.2f}")
        if not name.startswith("tiny") and best_slices(cell) < FLOOR:
            missed.append(f"{name}, best slice: {best_slices(cell):.2f} of at least {FLOOR:.2f}")
    return missed


def main() -> None:
    """Measure what is missing and print one line per cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=WEIGHTS, default=WEIGHTS)
    parser.add_argument("--threads", nargs="+", type=int, default=(2, 1))
    parser.add_argument("--rows", nargs="+", type=int, choices=ROWS, default=ROWS)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    header = {
        "patches_sha256": patches_digest(),
        "repeats": options.repeats,
        "depth_tokens": DEPTH_TOKENS,
    }
    results = load_results(options.json, header)
    results["machine"] = f"{platform.machine()}, {os.cpu_count()} processors"
    results["library"] = power_native.library_info().content_key
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads:
            for weights in options.models:
                name = f"{weights}, {threads} thread" + "s" * (threads > 1)
                if name in results["cells"]:
                    continue
                model = model_path(weights, Path(folder))
                results["cells"][name] = measure(model, threads, list(options.rows), options.repeats)
                save_results(options.json, results, LEVELS)
                ratios = {rows: found["ratio"] for rows, found in results["cells"][name]["rows"].items()}
                print(json.dumps({"cell": name, "prefill": results["cells"][name]["prefill"]["ratio"], **ratios}))
    print("goals missed: " + ("; ".join(missed_goals(results)) or "none"))
    if options.write_docs:
        write_section(PAGE, "arithmetic-cost", tables(results))


if __name__ == "__main__":
    main()
