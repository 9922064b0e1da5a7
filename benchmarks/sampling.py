"""Does speculative decoding sample from the target's distribution? Chi-square against plain decoding, many times over.

    python benchmarks/sampling.py [--samplers draw top-p ...] [--adversaries random ...] [--p-values 200]
        [--requests 120] [--model FILE] [--write-docs]

A cell is a sampler and a drafter that is right or wrong on purpose. Per cell, ``--p-values`` times: ``--requests``
plain and as many speculative requests with other seeds, whose last tokens are counted; Pearson's test asks whether both
counts come from one distribution. If they do, the p-values are uniform on 0..1, which a Kolmogorov-Smirnov test judges.
Five tokens are allowed, so that every row is computed once (``power_core.testing.table_target``) and a request takes
well under a millisecond; the loop, the rollback and the samplers are the real ones. Without ``--model`` the target is a
tiny one with random weights. Cells are kept as they finish, so a run that was stopped goes on; other numbers of
p-values or requests start anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
import numpy as np
from doc_sections import table, write_section
from numpy.typing import NDArray

from power_core.plugins.manager import load_plugins
from power_core.sampler import SamplingSettings
from power_core.session import Session
from power_core.target import ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.testing.samplings import SAMPLINGS
from power_core.testing.scripted import ADVERSARIES, Truth, adversary
from power_core.testing.statistics import chi_square_p, uniform_p
from power_core.testing.table_target import TableTarget

RESULTS = Path(__file__).with_name("results") / "sampling.json"
PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
PROMPT = [40, 73, 110, 32]
TOKENS = 4


def samplings(target: TableTarget) -> Mapping[str, SamplingSettings]:
    """Return every sampler's settings on the allowed tokens; those without chance in them are left out."""
    first, second, third = target.allowed[:3]
    grammar = f"root ::= (<[{first}]> | <[{second}]> | <[{third}]>)*"
    every = {}
    for name, sampling in SAMPLINGS.items():
        if sampling.temperature == 0 and not sampling.xtc_probability:
            continue
        bias = {**target.only, **({second: 1.0} if sampling.logit_bias else {})}
        every[name] = attrs.evolve(sampling, logit_bias=bias, grammar=grammar if sampling.has_grammar else "")
    return every


@attrs.frozen
class Cell:
    """One sampler with one drafter."""

    target: TableTarget
    sampling: SamplingSettings
    plain: Session
    speculative: Session
    truth: Truth

    def p_value(self, seeds: Iterator[int], requests: int) -> float:
        """One chi-square test with fresh seeds."""
        return chi_square_p(
            self._counts(lambda: self._last(self.plain, next(seeds)), requests),
            self._counts(lambda: self._speculative(next(seeds)), requests),
        )

    def _speculative(self, seed: int) -> int:
        self.truth[tuple(self.target.prompt)] = self._tokens(self.plain, seed)
        return self._last(self.speculative, seed)

    def _last(self, session: Session, seed: int) -> int:
        return self._tokens(session, seed)[-1]

    def _tokens(self, session: Session, seed: int) -> tuple[int, ...]:
        sampling = attrs.evolve(self.sampling, seed=seed)
        return session.generate(self.target.prompt, max_tokens=TOKENS, sampling=sampling).result().tokens

    def _counts(self, draw: Callable[[], int], requests: int) -> NDArray[np.int64]:
        places = {token: place for place, token in enumerate(self.target.allowed)}
        return np.bincount([places[draw()] for _ in range(requests)], minlength=len(places))


def seeds_of(name: str) -> Iterator[int]:
    """Random seeds of a cell, the same for the same name."""
    random = np.random.default_rng(list(name.encode()))
    while True:
        yield int(random.integers(0, 2**32 - 1))


def measure(target: TableTarget, sampler: str, drafter: str, p_values: int, requests: int) -> dict[str, object]:
    """Return a cell's p-values and what the uniformity test says of them."""
    truth: Truth = {}
    plain = target.open_session(None)
    script = adversary(truth, ADVERSARIES[drafter], target.n_vocab)
    cell = Cell(target, samplings(target)[sampler], plain, target.open_session(script), truth)
    seeds = seeds_of(f"{sampler}/{drafter}")
    values = [cell.p_value(seeds, requests) for _ in range(p_values)]
    return {"p_values": values, "uniform_p": uniform_p(values), "smallest_p": min(values)}


def main() -> None:
    """Measure what is missing and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLINGS))
    parser.add_argument("--adversaries", nargs="+", choices=list(ADVERSARIES), default=list(ADVERSARIES))
    parser.add_argument("--p-values", type=int, default=200)
    parser.add_argument("--requests", type=int, default=120)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    key = {"model": options.model.name if options.model else "tiny", "p_values": options.p_values}
    key["requests"] = options.requests
    done = json.loads(options.results.read_text()) if options.results.exists() else {}
    done = done if done.get("key") == key else {"key": key, "cells": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = options.model or build_tiny_target(Path(folder) / "tiny.gguf", kind="attention", hidden=128)
        model = load_plugins().backend().open_model(ModelSettings(path=path), None)
        target = TableTarget(model, PROMPT, depth=TOKENS - 1)
        for sampler in options.samplers or samplings(target):
            for drafter in options.adversaries:
                name = f"{sampler} / {drafter}"
                if name not in done["cells"]:
                    done["cells"][name] = measure(target, sampler, drafter, options.p_values, options.requests)
                    options.results.write_text(json.dumps(done, indent=1) + "\n")
                print(f"{name}: uniform p = {done['cells'][name]['uniform_p']:.3f}", flush=True)
        target.close()
        model.close()
    show(done, write=options.write_docs)


def show(done: dict[str, dict[str, dict[str, float]]], *, write: bool) -> None:
    """Print one row per sampler, one column per drafter: the uniformity test's p-value."""
    names = dict.fromkeys(name.split(" / ")[0] for name in done["cells"])
    rows = []
    for sampler in names:
        values = [done["cells"].get(f"{sampler} / {drafter}", {}).get("uniform_p") for drafter in ADVERSARIES]
        rows.append([sampler, *("-" if value is None else f"{value:.3f}" for value in values)])
    text = table(["sampler", *ADVERSARIES], rows)
    print(text)
    if write:
        write_section(PAGE, "sampling", text)


if __name__ == "__main__":
    main()
