"""Calibration of the margin guard: how often a greedy choice differs from plain decoding, by the guard's multiple.

    uv run --group real-model python benchmarks/margin_guard.py [--models "zoo F16" ...] [--zoo FOLDER] [--rows 5 8]
        [--prompts 12] [--tokens 256] [--write-docs]

For each prompt, plain decoding of fast arithmetic gives the true tokens. They are then evaluated in slices, as full
acceptance would, so that the memory holds what slices leave behind; and before each slice by single rows from the same
memory, which is what the guard would do. A row whose margin is below the multiple times the largest difference that the
probe measured is guarded: its single-row choice counts. Other rows count with the slice's choice. A choice that is not
the true token is a failure.

Per multiple: the share of rows that are guarded (the cost), failures among rows that were not guarded (missed) and
among those that were (the memory differs by then), and the failures per row with the upper end of their 95% interval.
Models are kept as they finish, so a run that was stopped goes on; other patches of the library, prompts or widths start
anew.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np
from doc_sections import table, write_section
from exactness_cells import CTX_TOKENS, Models, load_prompts, prompts_digest
from requantised import patches_digest
from result_files import load_results, save_results

from power_core.exactness.cache import ProbeCache
from power_core.exactness.guarantor import Guarantor
from power_core.exactness.margin_guard import NOISE_MULTIPLE, margin
from power_core.plugins.manager import load_plugins
from power_core.report import Report
from power_core.sequence import TargetSequence
from power_core.target import ContextSettings, ModelSettings, TargetContext, TargetModel
from power_core.testing.models import build_tiny_target
from power_core.tokens import TokenId

MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SHOWN = (0.0, 1.0, 2.0, 4.0)
MODELS = (
    "tiny hybrid",
    "tiny attention",
    "tiny sliding-window",
    "zoo F16",
    "gemma-3-270m Q4_K_M",
    "gemma-3-270m Q8_0",
    "gemma-3-270m F16",
)
LEVELS = 4
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


def open_target(path: Path, most_rows: int, threads: int) -> tuple[TargetModel, TargetContext]:
    """Open a model and a context with fast arithmetic."""
    model = load_plugins().backend().open_model(ModelSettings(path=path, arithmetic="fast"), None)
    snapshots = most_rows - 1 if model.info.recurrent else 0
    settings = ContextSettings(
        ctx_tokens=CTX_TOKENS, output_rows=most_rows, snapshots=snapshots, threads=threads, batch_rows=512
    )
    return model, model.open_context(settings)


def open_guarantor(context: TargetContext, rows: int, n_vocab: int) -> Guarantor:
    """Return a guarantor that measures slices of ``rows`` rows and guards near-ties."""
    guarantor = Guarantor(
        context=context,
        arithmetic="guarded",
        slice_rows=rows,
        block_rows=rows,
        n_vocab=n_vocab,
        cache=ProbeCache(key=None),
    )
    guarantor.open([])
    return guarantor


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one model by slice width."""
    model, context = open_target(path, max(options.rows), options.threads)
    with closing(model), closing(context):
        outcomes: dict[int, list[RowOutcome]] = {rows: [] for rows in options.rows}
        guarantors = {rows: open_guarantor(context, rows, model.info.n_vocab) for rows in options.rows}
        for text in load_prompts(options.prompts):
            prompt = model.vocabulary.tokenize(text)
            truth = plain_tokens(TargetSequence(context, slice_rows=1), prompt, options.tokens)
            for rows, guarantor in guarantors.items():
                sequence = TargetSequence(context, slice_rows=rows)
                outcomes[rows] += row_outcomes(sequence, guarantor, prompt, truth, rows)
        return {
            str(rows): {
                "rows": len(found),
                "probe_of_the_last_prompt": attrs.asdict(guarantors[rows].record()),
                "by_multiple": [figures(found, multiple) for multiple in MULTIPLES],
            }
            for rows, found in outcomes.items()
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


def document(results: dict[str, Any]) -> str:
    """Return the page's section: a sum for the multiple in use, and a line per model, slice width and multiple."""
    header = ["model", "slice", "rows", "multiple", "decided again", "missed", "wrong although decided again"]
    lines, rows, failures = [], 0, 0
    for model, widths in results["cells"].items():
        for width, found in widths.items():
            shown = [line for line in found["by_multiple"] if line["multiple"] in SHOWN]
            lines += [_line(model, width, found["rows"], line) for line in shown]
            in_use = next(line for line in found["by_multiple"] if line["multiple"] == NOISE_MULTIPLE)
            rows += found["rows"]
            failures += in_use["missed"] + in_use["wrong_although_guarded"]
    share, upper = failure_rate(failures, rows)
    note = (
        f"Fast arithmetic of the CPU, {results['prompts']} prompts of {results['tokens']} tokens a model. The guard in "
        f"use has the multiple {NOISE_MULTIPLE:g}: {failures} of {rows:,} rows were not the true token, "
        f"{_rate(share, upper)} a row. Multiple 0 is no guard."
    )
    return f"{note}\n\n{table([*header, 'failures per row'], lines)}"


def _line(model: str, width: str, rows: int, line: dict[str, Any]) -> list[str]:
    return [
        model,
        f"{width} rows",
        f"{rows:,}",
        f"{line['multiple']:g}",
        f"{line['guarded_share']:.1%}",
        str(line["missed"]),
        str(line["wrong_although_guarded"]),
        _rate(line["failures_per_row"], line["failures_per_row_upper95"]),
    ]


def _rate(share: float, upper: float) -> str:
    return f"{share:.1e} (95 %: at most {upper:.1e})"


def model_path(name: str, models: Models, folder: Path) -> Path:
    """Return the file of a model of ``MODELS``."""
    family, kind = name.split()
    if family == "tiny":
        return build_tiny_target(folder / f"{kind}.gguf", kind=cast("Any", kind), seed=3)
    return models.target(family, kind)


def main() -> None:
    """Measure the models that are missing, print and keep the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--zoo", type=Path, help="folder with target/target.gguf")
    parser.add_argument("--rows", type=int, nargs="+", default=[5, 8])
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    header = {"patches_sha256": patches_digest(), "prompts_sha256": prompts_digest()}
    header |= {name: getattr(options, name) for name in ("rows", "prompts", "tokens", "threads")}
    results = load_results(options.json, header)
    with tempfile.TemporaryDirectory() as folder:
        models = Models(options.zoo, Path(folder))
        for name in options.models:
            if name not in results["cells"]:
                results["cells"][name] = measure(model_path(name, models, Path(folder)), options)
                save_results(options.json, results, LEVELS)
                print(f"{name}: done", flush=True)
    print(document(results))
    if options.write_docs:
        write_section(PAGE, "margin-guard", document(results))


if __name__ == "__main__":
    main()
