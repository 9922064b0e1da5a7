"""Calibration of the margin guard: how often a greedy choice differs from plain decoding, by the guard's multiple.

    uv run python benchmarks/margin_guard.py [--model FILE ...] [--rows 5 8] [--prompts 8] [--tokens 256] [--write-docs]

Without a model the tiny random-weight targets are measured. For each prompt, plain decoding of fast arithmetic gives
the true tokens. The same tokens are then evaluated in slices, as full acceptance would, so that the memory holds what
slices leave behind; and before each slice by single rows from the same memory, which is what the guard would do. A row
whose margin is below the multiple times the largest difference that the probe measured is guarded: its single-row
choice counts. Other rows count with the slice's choice. A choice that is not the true token is a failure.

Per multiple: the share of rows that are guarded (the cost), failures among rows that were not guarded (missed) and
among those that were (the memory differs by then), and the failures per row with the upper end of their 95% interval.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from doc_sections import table, write_section

from power_core.exactness.cache import ProbeCache
from power_core.exactness.guarantor import Guarantor
from power_core.exactness.margin_guard import NOISE_MULTIPLE, margin
from power_core.plugins.manager import load_plugins
from power_core.report import Report
from power_core.sequence import TargetSequence
from power_core.target import ContextSettings, ModelSettings, TargetContext, TargetModel
from power_core.testing.models import build_tiny_target
from power_core.testing.parity import text_prompts
from power_core.tokens import TokenId

MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
KINDS = ("hybrid", "attention", "sliding-window")
CONTEXT_TOKENS = 1024
RESULTS = Path(__file__).with_name("results") / "margin_guard.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "exactness.md"


@attrs.frozen
class RowOutcome:
    """One row: its margin over the measured difference, and whether slice and single row chose the true token."""

    relative_margin: float
    slice_is_right: bool
    single_is_right: bool


def plain_tokens(sequence: TargetSequence, prompt: Sequence[TokenId], n_tokens: int) -> list[TokenId]:
    """Return what plain decoding emits; the context holds all but the last token afterwards."""
    tokens = [sequence.context.argmax(sequence.start(prompt))]
    while len(tokens) < n_tokens:
        sequence.evaluate(tokens[-1:], len(prompt) + len(tokens) - 1)
        tokens.append(sequence.context.argmax(0))
    return tokens


def row_outcomes(
    sequence: TargetSequence, guarantor: Guarantor, prompt: Sequence[TokenId], truth: Sequence[TokenId], rows: int
) -> Iterator[RowOutcome]:
    """Evaluate the true tokens in slices and yield every row's outcome."""
    context, report = sequence.context, Report(strategy="calibration")
    sequence.start(prompt)
    guarantor.begin(greedy=True)
    for at in range(0, len(truth) - rows, rows):
        sequence.begin([*prompt, *truth[:at]], truth[at])
        guarantor.cover(sequence, report)
        difference = guarantor.record().largest_difference
        start_pos, piece = len(prompt) + at, truth[at : at + rows]
        mark = sequence.checkpoint()
        single = []
        for index in range(rows):
            sequence.evaluate(piece[index : index + 1], start_pos + index)
            single.append(context.argmax(0))
        sequence.go_back(mark)
        sequence.evaluate(piece, start_pos)
        for row in range(rows):
            right = truth[at + row + 1]
            yield RowOutcome(
                margin(context.logits(row)) / difference if difference else math.inf,
                context.argmax(row) == right,
                single[row] == right,
            )


def open_target(path: Path, rows: int, threads: int) -> tuple[TargetModel, TargetContext]:
    """Open a model and a context with fast arithmetic."""
    model = load_plugins().backend().open_model(ModelSettings(path=path, arithmetic="fast"), None)
    snapshots = rows - 1 if model.info.recurrent else 0
    settings = ContextSettings(
        ctx_tokens=CONTEXT_TOKENS, output_rows=rows, snapshots=snapshots, threads=threads, batch_rows=256
    )
    return model, model.open_context(settings)


def measure(path: Path, name: str, rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one model and one slice width."""
    outcomes: list[RowOutcome] = []
    model, context = open_target(path, rows, options.threads)
    with closing(model), closing(context):
        guarantor = Guarantor(
            context=context,
            arithmetic="guarded",
            slice_rows=rows,
            block_rows=rows,
            n_vocab=model.info.n_vocab,
            cache=ProbeCache(key=None),
        )
        guarantor.open([])
        sequence = TargetSequence(context, slice_rows=rows)
        for prompt_text in text_prompts(options.prompts, seed=7):
            prompt = model.vocabulary.tokenize(prompt_text)
            truth = plain_tokens(sequence, prompt, options.tokens)
            outcomes += row_outcomes(sequence, guarantor, prompt, truth, rows)
        measured = attrs.asdict(guarantor.record())
    return {
        "model": name,
        "slice_rows": rows,
        "threads": options.threads,
        "rows": len(outcomes),
        "probe_of_the_last_prompt": measured,
        "by_multiple": [figures(outcomes, multiple) for multiple in MULTIPLES],
    }


def figures(outcomes: Sequence[RowOutcome], multiple: float) -> dict[str, Any]:
    """Return cost and failures of one multiple."""
    guarded = [outcome for outcome in outcomes if outcome.relative_margin < multiple]
    missed = sum(not outcome.slice_is_right for outcome in outcomes if outcome.relative_margin >= multiple)
    wrong = sum(not outcome.single_is_right for outcome in guarded)
    rate, upper = failure_rate(missed + wrong, len(outcomes))
    return {
        "multiple": multiple,
        "guarded_share": len(guarded) / len(outcomes),
        "missed": missed,
        "wrong_although_guarded": wrong,
        "failures_per_row": rate,
        "failures_per_row_upper95": upper,
    }


def failure_rate(failures: int, rows: int) -> tuple[float, float]:
    """Return the share of failures and the upper end of Wilson's 95% interval."""
    z = 1.96
    share = failures / rows
    centre = share + z * z / (2 * rows)
    spread = z * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    return share, float(np.minimum(1.0, (centre + spread) / (1 + z * z / rows)))


def document(results: Sequence[dict[str, Any]]) -> str:
    """Return the page's section: a line per model, slice width and multiple."""
    header = ["model", "slice", "rows", "multiple", "decided again", "missed", "wrong although decided again"]
    lines = []
    for result in results:
        for line in result["by_multiple"]:
            failures = f"{line['failures_per_row']:.1e} (95 %: at most {line['failures_per_row_upper95']:.1e})"
            lines.append(
                [
                    result["model"],
                    f"{result['slice_rows']} rows",
                    f"{result['rows']:,}",
                    f"{line['multiple']:g}",
                    f"{line['guarded_share']:.1%}",
                    str(line["missed"]),
                    str(line["wrong_although_guarded"]),
                    failures,
                ]
            )
    chosen = (
        f"Fast arithmetic of the CPU; the guard in use has the multiple {NOISE_MULTIPLE:g}; multiple 0 is no guard."
    )
    return chosen + "\n\n" + table([*header, "failures per row"], lines)


def show(result: dict[str, Any]) -> None:
    """Print a table."""
    probe = result["probe_of_the_last_prompt"]
    print(
        f"{result['model']}, slices of {result['slice_rows']} rows, {result['threads']} thread(s), "
        f"{result['rows']} rows; W {probe['widest_rows']}, largest difference {probe['largest_difference']:.3g}"
    )
    print("  multiple  guarded  missed  wrong although guarded  failures per row  (95% below)")
    for line in result["by_multiple"]:
        print(
            f"  {line['multiple']:8.2f}  {line['guarded_share']:7.1%}  {line['missed']:6d}"
            f"  {line['wrong_although_guarded']:22d}  {line['failures_per_row']:16.2e}"
            f"  {line['failures_per_row_upper95']:11.2e}"
        )


def main() -> int:
    """Measure every model and width; print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, nargs="+", default=[])
    parser.add_argument("--rows", type=int, nargs="+", default=[5, 8])
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write-docs", action="store_true", help="keep the results and write the page's section")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        models = {path.name: path for path in options.model} or {
            f"tiny {kind}": build_tiny_target(Path(folder) / f"{kind}.gguf", kind=kind, seed=3) for kind in KINDS
        }
        for name, path in models.items():
            for rows in options.rows:
                results.append(measure(path, name, rows, options))
                show(results[-1])
    if options.write_docs:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        write_section(PAGE, "margin-guard", document(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
