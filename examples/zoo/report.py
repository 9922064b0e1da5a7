"""Measures every drafter of the zoo against plain decoding on held-out prompts, all sessions in one process.

    python examples/zoo/report.py [--models FOLDER] [--out FOLDER] [--prompts 40] [--tokens 256] [--repeats 3]

The runs are those of ``power bench`` (docs/benchmarking.md). Writes report.json, a report of that kind;
without_loops.json, acceptance on what the outputs hold before they repeat themselves; report.md, the table; and
report.png. Exit status 1 where an output is not that of plain decoding.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import power_zoo
from loops import LEAST_LOOP_TOKENS, Counts, measure_without_loops

from power_core import RequestSettings, SessionSettings, open_session
from power_core.bench.charts import make_charts
from power_core.bench.costs import measure_row_costs
from power_core.bench.drawing import draw_png
from power_core.bench.files import write_report
from power_core.bench.plan import BenchPlan, Prompt, make_variants
from power_core.bench.prompts import read_prompts
from power_core.bench.records import BenchReport, RowCosts, Summary
from power_core.bench.runner import run_bench
from power_core.plugins.manager import load_plugins

HERE = Path(__file__).resolve().parent
CONTEXT_TOKENS = 1024
WIDTHS = {"prompt-lookup": [4], "mtp": [1, 3], "dflash": [4], "dflash2": [4], "dspark": [4, 7]}
MOST_ROWS = 16


def plan_runs(models: Path, prompts: Sequence[Prompt], *, tokens: int, repeats: int, threads: int) -> BenchPlan:
    """Return what is run: plain decoding and every strategy of ``WIDTHS`` at its draft widths."""
    plugins = load_plugins()
    base = SessionSettings(model=models / "target" / "target.gguf", ctx=CONTEXT_TOKENS, threads=threads)
    variants = list(make_variants(base, plugins, specs=[]))
    for spec, widths in WIDTHS.items():
        drafts = {} if plugins.draft_kind(spec) is None else {spec: models / "drafts" / f"{spec}.gguf"}
        variants += make_variants(base, plugins, specs=[spec], draft_maxes=widths, drafts=drafts)[1:]
    return BenchPlan(
        variants=tuple(variants),
        prompts=tuple(prompts),
        request=RequestSettings(max_tokens=tokens),
        repeats=repeats,
    )


def row_costs(plan: BenchPlan) -> RowCosts:
    """Measure one evaluation of the target by its rows, up to more than any of the strategies verifies."""
    draft_max = MOST_ROWS - 1
    settings = attrs.evolve(plan.plain.settings, spec="prompt-lookup", draft_max=draft_max, snapshots=draft_max)
    with open_session(settings) as session:
        tokens = session.model.vocabulary.tokenize(plan.prompts[0].text)
        return measure_row_costs(session, f"prompt-lookup K={draft_max}", tokens)


def to_table(report: BenchReport, lengths: Mapping[str, int], without_loops: Mapping[str, Counts]) -> str:
    """Return the figures as a Markdown table with what has to be known to read it."""
    assert report.row_costs is not None
    n_prompts, tokens = len(report.prompts), report.workload.max_tokens
    loops = sum(length < tokens for length in lengths.values())
    costs = {cost.rows: cost.median_ns / report.row_costs.costs[0].median_ns for cost in report.row_costs.costs}
    lines = [
        f"{n_prompts} held-out prompts x {tokens} tokens, greedy, {report.workload.repeats} repeats; "
        f"{report.variants[0].settings['threads']} threads. {loops} outputs end in a loop: with one period, over at "
        f'least two turns and {LEAST_LOOP_TOKENS} tokens. "Without loops" are the {sum(lengths.values()):,} tokens '
        "before the outputs begin to repeat themselves, all others count whole outputs.",
        "",
        "| strategy | acceptance | without loops | by position | accepted per round | tokens per target pass "
        "| without loops | tok/s | ratio to off | ratio of medians | if drafts cost nothing | equal to off |",
        "|" + " --- |" * 12,
        *(_table_row(summary, without_loops[summary.variant], costs, n_prompts) for summary in report.summaries),
        "",
        "Ratio to off: the median over pairs of runs, with its interval of 95%; definitions in docs/benchmarking.md.",
        "",
        "One evaluation of the target by its rows, as multiples of one row: "
        + ", ".join(f"{rows}: {cost:.2f}" for rows, cost in costs.items())
        + ". This curve bounds every strategy: tokens per target pass over the cost of a pass of its rows is the ratio "
        "that drafts without any cost of their own would reach.",
    ]
    return "\n".join(lines) + "\n"


def _table_row(summary: Summary, without_loops: Counts, costs: Mapping[int, float], n_prompts: int) -> str:
    ratio = summary.ratio
    rows = 1 + summary.drafted_tokens / summary.rounds
    bound = summary.tokens_per_target_pass / float(np.interp(rows, list(costs), list(costs.values())))
    interval = "" if ratio is None or ratio.low is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    cells = [
        summary.variant,
        f"{summary.acceptance_rate:.1%}",
        f"{without_loops.acceptance_rate:.1%}",
        " ".join(f"{share:.2f}" for share in summary.accepted_by_position),
        f"{summary.accepted_tokens / summary.rounds:.2f}",
        f"{summary.tokens_per_target_pass:.2f}",
        f"{without_loops.tokens_per_target_pass:.2f}",
        f"{summary.median_decode_tokens_per_second:.0f}",
        "1.00" if ratio is None else f"{ratio.median:.2f}{interval}",
        "1.00" if ratio is None else f"{ratio.of_medians:.2f}",
        f"{bound:.2f}",
        f"{summary.prompts_equal_to_off} of {n_prompts}",
    ]
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=power_zoo.HERE, help="folder of target/ and drafts/")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder to write to")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="0 for one per core")
    options = parser.parse_args(arguments)
    prompts = read_prompts(HERE / "prompts.json")[: options.prompts]
    plan = plan_runs(options.models, prompts, tokens=options.tokens, repeats=options.repeats, threads=options.threads)
    report = attrs.evolve(run_bench(plan, progress=_show), row_costs=row_costs(plan))
    lengths, without_loops = measure_without_loops(plan)
    table = to_table(report, lengths, without_loops)
    counts: dict[str, Any] = {name: attrs.asdict(each) for name, each in without_loops.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    write_report(report, options.out / "report.json")
    texts = {"report.md": table}
    texts["without_loops.json"] = json.dumps({"new_tokens": lengths, "variants": counts}, indent=1) + "\n"
    for name, text in texts.items():
        (options.out / name).write_text(text, encoding="utf-8")
    draw_png(make_charts({"zoo": report}), options.out / "report.png")
    print(table)
    return 0 if report.passed else 1


def _show(phase: str, done: int, total: int) -> None:
    if phase in ("warm-up", "bench") and done % max(1, total // 10) == 0:
        print(f"{phase}: {done} of {total}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
