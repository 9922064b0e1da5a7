"""Measures every drafter of the zoo against plain decoding on held-out prompts, all sessions in one process.

    python examples/zoo/report.py [--models FOLDER] [--out FOLDER] [--prompts 40] [--tokens 256] [--repeats 3]

Writes report.json, report.md and report.png. A prompt runs once per strategy and repeat, the strategies in turn, so
that each speed is compared with plain decoding of the same prompt moments before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import power_zoo
from row_costs import row_costs_ms

from power_core import Session, open_session
from power_core.report import Report

HERE = Path(__file__).resolve().parent
LONGEST_PERIOD = 32
LOOP_TOKENS = 64


@attrs.frozen(kw_only=True)
class Strategy:
    """One way to decode: name in the table, strategy, drafts per round, and the draft's file when it has one."""

    name: str
    spec: str
    draft_max: int | None = None
    draft: str | None = None


STRATEGIES = (
    Strategy(name="off", spec="off"),
    Strategy(name="prompt-lookup K=4", spec="prompt-lookup", draft_max=4),
    Strategy(name="mtp K=1", spec="mtp", draft_max=1),
    Strategy(name="mtp K=3", spec="mtp", draft_max=3),
    Strategy(name="dflash K=4", spec="dflash", draft_max=4, draft="dflash"),
    Strategy(name="dflash2 K=4", spec="dflash2", draft_max=4, draft="dflash2"),
    Strategy(name="dspark K=4", spec="dspark", draft_max=4, draft="dspark"),
    Strategy(name="dspark K=7", spec="dspark", draft_max=7, draft="dspark"),
)


@attrs.define(kw_only=True)
class Tally:
    """Counts of one strategy over prompts.

    Attributes:
        prefixes: Rounds by accepted drafts.
        rates: Tokens per second of every run, by prompt and repeat.
        equal: Prompts whose output was that of plain decoding.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    verified: int = 0
    prefixes: Counter[int] = attrs.Factory(Counter)
    rates: list[float] = attrs.Factory(list)
    equal: int = 0

    def add(self, report: Report) -> None:
        self.rounds += report.rounds
        self.drafted += report.drafted_tokens
        self.accepted += report.accepted_tokens
        self.verified += report.verified_tokens
        self.prefixes.update(report.accepted_prefix_histogram)

    def figures(self) -> dict[str, Any]:
        """Return what the table shows; shares of rounds that accepted at least 1, 2, ... drafts by position."""
        most = max(self.prefixes, default=0)
        reached = [sum(count for length, count in self.prefixes.items() if length >= at) for at in range(1, most + 1)]
        return {
            "acceptance": self.accepted / self.drafted if self.drafted else 0.0,
            "accepted_by_position": [count / self.rounds for count in reached],
            "rows_per_target_pass": 1 + self.drafted / self.rounds if self.rounds else 1.0,
            "accepted_per_round": self.accepted / self.rounds if self.rounds else 0.0,
            "tokens_per_target_pass": self.verified / self.rounds if self.rounds else 0.0,
        }


def repeats_itself(tokens: list[int]) -> bool:
    """Return whether an output ends in a loop: its last tokens repeat with a short period."""
    tail = tokens[-LOOP_TOKENS:]
    if len(tail) < LOOP_TOKENS:
        return False
    return any(tail[period:] == tail[:-period] for period in range(1, LONGEST_PERIOD + 1))


def measure(models: Path, prompts: list[str], *, tokens: int, repeats: int, threads: int) -> dict[str, Any]:
    """Run everything and return the figures."""
    everywhere = {strategy.name: Tally() for strategy in STRATEGIES}
    varied = {strategy.name: Tally() for strategy in STRATEGIES}
    loops = 0
    with ExitStack() as stack:
        sessions = {each.name: stack.enter_context(_open(models, each, threads)) for each in STRATEGIES}
        for number, prompt in enumerate(prompts):
            outputs = _run_prompt(sessions, prompt, tokens, repeats, everywhere)
            plain, _ = outputs["off"]
            looping = repeats_itself(plain)
            loops += looping
            for name, (output, report) in outputs.items():
                everywhere[name].equal += output == plain
                everywhere[name].add(report)
                if not looping:
                    varied[name].add(report)
            print(f"prompt {number + 1} of {len(prompts)}", flush=True)
        text = list(sessions["off"].model.vocabulary.tokenize("".join(prompts)))
    return {
        "prompts": len(prompts),
        "tokens": tokens,
        "repeats": repeats,
        "threads": threads,
        "prompts_that_end_in_a_loop": loops,
        "strategies": {
            each.name: {
                **everywhere[each.name].figures(),
                "equal_to_off": everywhere[each.name].equal,
                **_speed(everywhere[each.name], everywhere["off"]),
            }
            for each in STRATEGIES
        },
        "row_costs_ms": row_costs_ms(models / "target" / "target.gguf", text, threads=threads),
        "without_loops": {name: tally.figures() for name, tally in varied.items()},
    }


def _open(models: Path, strategy: Strategy, threads: int) -> Session:
    draft = None if strategy.draft is None else models / "drafts" / f"{strategy.draft}.gguf"
    target = models / "target" / "target.gguf"
    return open_session(
        model=target, spec=strategy.spec, draft=draft, draft_max=strategy.draft_max, ctx=1024, threads=threads
    )


def _run_prompt(
    sessions: dict[str, Session], prompt: str, tokens: int, repeats: int, tallies: dict[str, Tally]
) -> dict[str, tuple[list[int], Report]]:
    outputs: dict[str, tuple[list[int], Report]] = {}
    for _ in range(repeats):
        for name, session in sessions.items():
            result = session.generate(prompt, max_tokens=tokens).result()
            tallies[name].rates.append(result.report.tokens_per_second)
            outputs[name] = (list(result.tokens), result.report)
    return outputs


def _speed(tally: Tally, plain: Tally) -> dict[str, float]:
    ratios = sorted(mine / theirs for mine, theirs in zip(tally.rates, plain.rates, strict=True))
    return {
        "tokens_per_second": statistics.median(tally.rates),
        "ratio_of_medians": statistics.median(tally.rates) / statistics.median(plain.rates),
        "median_ratio": statistics.median(ratios),
    }


def to_table(figures: dict[str, Any]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        f"{figures['prompts']} held-out prompts x {figures['tokens']} tokens, greedy; "
        f"{figures['prompts_that_end_in_a_loop']} outputs end in a loop.",
        "",
        "| strategy | acceptance | without loops | by position | accepted per round | tokens per target pass "
        "| tok/s | ratio to off | if drafts cost nothing | equal to off |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    costs = figures["row_costs_ms"]
    for name, found in figures["strategies"].items():
        varied = figures["without_loops"][name]
        positions = " ".join(f"{share:.2f}" for share in found["accepted_by_position"])
        lines.append(
            f"| {name} | {found['acceptance']:.1%} | {varied['acceptance']:.1%} | {positions} "
            f"| {found['accepted_per_round']:.2f} | {found['tokens_per_target_pass']:.2f} "
            f"| {found['tokens_per_second']:.0f} | {found['ratio_of_medians']:.2f} | {_bound(found, costs):.2f} "
            f"| {found['equal_to_off']} of {figures['prompts']} |"
        )
    lines += [
        "",
        "One evaluation of the target by its rows, as multiples of one row: "
        + ", ".join(f"{rows}: {cost / costs[1]:.2f}" for rows, cost in costs.items())
        + ". This curve bounds every strategy: tokens per target pass over the cost of a pass of its rows is the ratio "
        "that drafts without any cost of their own would reach.",
    ]
    return "\n".join(lines) + "\n"


def _bound(found: dict[str, Any], costs: dict[int, float]) -> float:
    cost = float(np.interp(found["rows_per_target_pass"], list(costs), list(costs.values())))
    return found["tokens_per_target_pass"] * costs[1] / cost


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw acceptance by position and speed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, found in figures["strategies"].items():
        shares = found["accepted_by_position"]
        if shares:
            left.plot(range(1, len(shares) + 1), shares, marker="o", label=name)
    left.set(title="drafts accepted by position", xlabel="position", ylabel="share of rounds", ylim=(0, 1))
    left.legend()
    names = list(figures["strategies"])
    right.barh(names, [figures["strategies"][name]["ratio_of_medians"] for name in names])
    right.axvline(1.0, color="black", linewidth=1)
    right.set(title="speed, plain decoding = 1", xlabel="ratio of medians")
    right.invert_yaxis()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=power_zoo.HERE, help="folder of target/ and drafts/")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder to write to")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="0 for one per core")
    arguments = parser.parse_args()
    prompts = [prompt["text"] for prompt in json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))]
    figures = measure(
        arguments.models,
        prompts[: arguments.prompts],
        tokens=arguments.tokens,
        repeats=arguments.repeats,
        threads=arguments.threads or len(os.sched_getaffinity(0)),
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "report.md").write_text(to_table(figures), encoding="utf-8")
    draw(figures, arguments.out / "report.png")
    print(to_table(figures))


if __name__ == "__main__":
    main()
