"""Does speculative decoding sample from the target's distribution? Chi-square against plain decoding, many times over.

    python benchmarks/sampling.py [--samplers draw top-p ...] [--adversaries random ...] [--p-values 200]
        [--requests 120] [--zoo] [--write-docs]

A cell is a sampler and a drafter that is right or wrong on purpose. Per cell, ``--p-values`` times: ``--requests``
plain and as many speculative requests with other seeds; Pearson's statistic over the tokens at each of their positions
asks whether both come from one distribution (``power_core.testing.statistics.permuted_p``). If they do, the p-values
are uniform on 0..1, which a Kolmogorov-Smirnov test judges. The plain requests are shared by a sampler's cells; every
cell has speculative seeds of its own. Five tokens are allowed, so that every row is computed once
(``power_core.testing.table_target``); the loop, the rollback and the samplers are the real ones. The target is a tiny
one with random weights, or with ``--zoo`` the zoo's trained one. Cells are kept as they finish, so a run that was
stopped goes on; other numbers of p-values or requests start anew.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from doc_sections import table, write_section
from numpy.typing import NDArray
from result_files import load_results, save_results

from power_core.plugins.manager import load_plugins
from power_core.sampler import SamplingSettings
from power_core.session import Session
from power_core.target import ModelSettings, TargetModel
from power_core.testing.models import build_tiny_target
from power_core.testing.samplings import SAMPLINGS
from power_core.testing.scripted import ADVERSARIES, Truth, adversary
from power_core.testing.statistics import permuted_p, uniform_p
from power_core.testing.table_target import TableTarget
from power_core.tokens import TokenId

RESULTS = Path(__file__).with_name("results") / "sampling.json"
PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
PROMPT = [40, 73, 110, 32]
TOKENS = 4
TEMPERATURE = 3.0
FILTERS: Mapping[str, Mapping[str, Any]] = {
    "top-k": {"top_k": 3},
    "typical": {"typical_p": 0.8},
    "min-p": {"min_p": 0.2},
    "xtc": {"xtc_threshold": 0.1},
    "all": {"top_k": 4},
}
"""So that a filter removes some of five tokens, not all and not none."""

Outcomes = NDArray[np.int64]


def samplings(target: TableTarget, grammar: str) -> Mapping[str, SamplingSettings]:
    """Return every sampler's settings on the allowed tokens; a greedy grammar is left out, nothing in it is drawn."""
    second = target.allowed[1]
    every = {}
    for name, sampling in SAMPLINGS.items():
        if name == "grammar-greedy":
            continue
        every[name] = attrs.evolve(
            sampling,
            **FILTERS.get(name, {}),
            temperature=0.0 if sampling.xtc_probability and not sampling.temperature else TEMPERATURE,
            logit_bias={**target.only, **({second: 1.0} if sampling.logit_bias else {})},
            grammar=grammar if sampling.has_grammar else "",
        )
    return every


def grammar_of(model: TargetModel, tokens: list[TokenId]) -> str:
    """Return a grammar that allows three of the tokens; a token that is no whole text fits none."""
    whole = [token for token in tokens if _is_text(model.vocabulary.token_bytes(token))]
    return f"root ::= ({' | '.join(f'<[{token}]>' for token in whole[:3])})*"


def _is_text(piece: bytes) -> bool:
    try:
        return bool(piece.decode())
    except UnicodeDecodeError:
        return False


@attrs.frozen
class Bench:
    """A target with its plain session and one with drafts that follow ``truth``."""

    target: TableTarget
    sampling: SamplingSettings
    plain: Session

    def outcomes(self, draw: Callable[[int], tuple[TokenId, ...]], seeds: Iterator[int], requests: int) -> Outcomes:
        """Return the places of the drawn tokens among the allowed ones, int64[requests, TOKENS]."""
        places = {token: place for place, token in enumerate(self.target.allowed)}
        return np.array([[places[token] for token in draw(next(seeds))] for _ in range(requests)])

    def draw_plainly(self, seed: int) -> tuple[TokenId, ...]:
        """Return the tokens of one plain request."""
        return self.draw(self.plain, seed)

    def draw(self, session: Session, seed: int) -> tuple[TokenId, ...]:
        """Return the tokens of one request."""
        sampling = attrs.evolve(self.sampling, seed=seed)
        return session.generate(self.target.prompt, max_tokens=TOKENS, sampling=sampling).result().tokens


def seeds_of(name: str) -> Iterator[int]:
    """Random seeds of a cell, the same for the same name."""
    random = np.random.default_rng(list(name.encode()))
    while True:
        yield int(random.integers(0, 2**32 - 1))


def measure(bench: Bench, cell: str, drafter: str, plain: list[Outcomes]) -> dict[str, Any]:
    """Return a cell's p-values, one per sample of ``plain``, and what the uniformity test says of them."""
    truth: Truth = {}
    script = adversary(truth, ADVERSARIES[drafter], bench.target.n_vocab)
    seeds, random = seeds_of(cell), np.random.default_rng(list(cell.encode()))
    values = []
    with bench.target.open_session(script) as session:

        def draw(seed: int) -> tuple[TokenId, ...]:
            truth[tuple(bench.target.prompt)] = bench.draw_plainly(seed)
            return bench.draw(session, seed)

        for sample in plain:
            values.append(permuted_p(sample, bench.outcomes(draw, seeds, len(sample)), random))
    rounded = [round(value, 5) for value in values]
    return {"p_values": rounded, "uniform_p": uniform_p(values)}


def plain_samples(bench: Bench, sampler: str, p_values: int, requests: int) -> list[Outcomes]:
    """Return the plain samples that all cells of a sampler are compared with.

    Raises:
        ValueError: nearly every request ends with the same token, so the sampler's cells would show nothing.
    """
    seeds = seeds_of(f"{sampler} / plain")
    samples = [bench.outcomes(bench.draw_plainly, seeds, requests) for _ in range(p_values)]
    commonest = np.bincount(np.concatenate(samples)[:, -1]).max() / (p_values * requests)
    if commonest > 0.9:
        raise ValueError(f"sampler {sampler!r}: {commonest:.1%} of the last tokens are the same one, at most 90%")
    return samples


def main() -> None:
    """Measure what is missing and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLINGS))
    parser.add_argument("--adversaries", nargs="+", choices=list(ADVERSARIES), default=list(ADVERSARIES))
    parser.add_argument("--p-values", type=int, default=200)
    parser.add_argument("--requests", type=int, default=120)
    parser.add_argument("--zoo", action="store_true", help="the zoo's target instead of the tiny one")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    done = load_results(options.results, {"p_values": options.p_values, "requests": options.requests})
    with tempfile.TemporaryDirectory() as folder:
        model = load_plugins().backend().open_model(ModelSettings(path=model_path(options.zoo, Path(folder))), None)
        try:
            run("zoo" if options.zoo else "tiny", model, options, done)
        finally:
            model.close()
    show(done, write=options.write_docs)


def model_path(zoo: bool, folder: Path) -> Path:
    """Return the target's file."""
    if zoo:
        from power_zoo import target_path

        return target_path()
    return build_tiny_target(folder / "tiny.gguf", kind="attention", hidden=128)


def run(name: str, model: TargetModel, options: argparse.Namespace, done: dict[str, Any]) -> None:
    """Measure the cells of a target that are missing; every cell is kept when it ends."""
    target = TableTarget(model, PROMPT, depth=TOKENS - 1)
    cells: dict[str, Any] = done["cells"].setdefault(name, {})
    for sampler, sampling in samplings(target, grammar_of(model, target.allowed)).items():
        wanted = [f"{sampler} / {drafter}" for drafter in options.adversaries]
        if (options.samplers and sampler not in options.samplers) or all(cell in cells for cell in wanted):
            continue
        with target.open_session(None) as session:
            bench = Bench(target, sampling, session)
            plain = plain_samples(bench, sampler, options.p_values, options.requests)
            for cell, drafter in zip(wanted, options.adversaries, strict=True):
                if cell not in cells:
                    cells[cell] = measure(bench, cell, drafter, plain)
                    save_results(options.results, done, levels=3)
                    print(f"{name}, {cell}: uniform p = {cells[cell]['uniform_p']:.3f}", flush=True)
    target.close()


def show(done: dict[str, Any], *, write: bool) -> None:
    """Print one row per target and sampler, one column per drafter: the uniformity test's p-value."""
    rows, uniform, values = [], [], []
    for target, cells in done["cells"].items():
        for sampler in dict.fromkeys(name.split(" / ")[0] for name in cells):
            found = [cells.get(f"{sampler} / {drafter}") for drafter in ADVERSARIES]
            rows.append([target, sampler, *("-" if cell is None else f"{cell['uniform_p']:.3f}" for cell in found)])
        uniform += [cell["uniform_p"] for cell in cells.values()]
        values += [value for cell in cells.values() for value in cell["p_values"]]
    note = (
        f"{done['p_values']} p-values a cell, each of {done['requests']} plain and as many speculative requests of "
        f"{TOKENS} tokens; five tokens are allowed. A figure is the p-value of a Kolmogorov-Smirnov test that a "
        f"cell's p-values are uniform. Smallest of {len(uniform)}: {min(uniform):.4f}; they are uniform "
        f"themselves with p = {uniform_p(uniform):.2f}. Of all {len(values):,} p-values "
        f"{np.mean(np.array(values) < 0.01):.2%} are below 0.01."
    )
    text = f"{note}\n\n{table(['target', 'sampler', *ADVERSARIES], rows)}"
    print(text)
    if write:
        write_section(PAGE, "sampling", text)


if __name__ == "__main__":
    main()
