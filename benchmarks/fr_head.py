"""MTP drafts from fewer tokens: what is accepted by domain on the zoo, and what a step costs with 150,000 tokens.

    uv run python benchmarks/fr_head.py [--prompts 4] [--tokens 64] [--repeats 7] [--parts zoo cost] [--write-docs]

``zoo``: the trained target and prompts of six domains (``benchmarks/prompts``); a ranked head holds the tokens that are
most frequent in the top-level modules of the standard library, a plain one the first token ids. Outputs are compared
with plain decoding. Acceptance counts whole rounds of K = 3 drafts.

``cost``: a random-weight target of 150,000 tokens, 256 wide, Q6_K. All sessions are open together and take turns. Its
drafts are never accepted, so a round is one target pass and K = 3 steps of the head whatever its rows; the gain at
equal acceptance is the ratio of two rounds' medians, and the ratio of tokens per pass at which that gain is lost is its
inverse.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

from doc_sections import table, write_section
from fr_head_cost import measure_cost
from fr_head_zoo import measure_zoo

from power_core.whole_file import whole_file

RESULTS = Path(__file__).with_name("results") / "fr_head.json"
PAGE = Path(__file__).parents[1] / "docs" / "fr-head.md"


def zoo_section(figures: dict[str, Any]) -> str:
    """Return the table of acceptance by head and domain."""
    heads, shares = figures["heads"], figures["map"]["corpus_share"]
    domains = list(heads["whole"])
    lines = []
    for name, by_domain in heads.items():
        order, _, rows = name.partition(" ")
        share = f"{shares[rows]:.1%}" if order == "ranked" else ""
        cells = [
            f"{each['acceptance']:.0%} ({each['emitted_inside']:.0%})" if rows else f"{each['acceptance']:.0%}"
            for each in (by_domain[domain] for domain in domains)
        ]
        passes = [by_domain[domain]["tokens_per_target_pass"] for domain in domains]
        lines.append([name, share, *cells, f"{statistics.mean(passes):.2f}"])
    head = (
        f"{figures['prompts_per_domain']} prompts a domain, {figures['tokens']} tokens each, "
        f"K = {figures['draft_max']}; the whole head has {figures['vocabulary']} tokens. Cells are the acceptance and, "
        "in brackets, the share of the tokens of plain decoding that have a row."
    )
    columns = ["head", "share of corpus tokens inside the set", *domains, "tokens per target pass, mean"]
    return f"{head}\n\n{table(columns, lines)}"


def cost_section(figures: dict[str, Any]) -> str:
    """Return the table of round times."""
    heads = figures["heads"]
    medians = {name: statistics.median(each["round_ms"]) for name, each in heads.items()}
    lines = [
        [
            name,
            f"{statistics.median(each['draft_ms']):.2f}",
            f"{medians[name]:.2f}",
            f"{min(each['round_ms']):.2f} to {max(each['round_ms']):.2f}",
            f"{medians['whole'] / medians[name]:.2f}",
            f"{each['head_bytes']:,}",
        ]
        for name, each in heads.items()
    ]
    head = (
        f"{figures['vocabulary']:,} tokens, {figures['hidden']} wide, Q6_K, K = {figures['draft_max']}, one thread; "
        f"medians of {figures['repeats']} requests of {figures['tokens']} tokens, heads in turn."
    )
    columns = ["head", "drafting, ms a round", "round, ms", "spread", "gain at equal acceptance", "added bytes"]
    return f"{head}\n\n{table(columns, lines)}"


def main() -> None:
    """Measure, print, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=("zoo", "cost"), default=("zoo", "cost"))
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--write-docs", action="store_true", help="keep the results and write the page's sections")
    options = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    sections = {"zoo": zoo_section, "cost": cost_section}
    for part in options.parts:
        load_before = os.getloadavg()[0]
        if part == "zoo":
            kept[part] = measure_zoo(options.prompts, options.tokens)
        else:
            kept[part] = measure_cost(options.repeats, options.tokens)
        kept[part]["load"] = [round(load_before, 2), round(os.getloadavg()[0], 2)]
        print(sections[part](kept[part]), end="\n\n")
    if options.write_docs:
        with whole_file(RESULTS) as partial:
            partial.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        for part in options.parts:
            write_section(PAGE, part, sections[part](kept[part]))


if __name__ == "__main__":
    main()
