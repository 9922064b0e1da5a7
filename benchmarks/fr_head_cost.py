"""What a step of the head costs with all tokens and with fewer, on a random-weight target of 150,000 tokens."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from power_core import open_session
from power_core.artifacts import scan_header, tokenizer_fingerprint
from power_core.report import Report
from power_mtp.fr_map import FrMap, write_fr_map

sys.path.insert(0, str(Path(__file__).with_name("device")))
from random_models import write_target
from shapes import SMALL_TARGET

DRAFT_MAX = 3
VOCABULARY = 150_000
ROWS = (1_024, 8_192, 32_768)
STRIDE = 7_919  # prime to the vocabulary: every id once, neighbours far apart
PROMPT = list(range(100, 132))
COMMON: dict[str, Any] = {"ctx": 2048, "batch": 128, "threads": 1}

Head = dict[str, Any]


def measure_cost(repeats: int, tokens: int) -> dict[str, Any]:
    """Return the median time of a round and of its drafting, by head; all heads take turns."""
    shape = attrs.evolve(SMALL_TARGET, vocabulary=VOCABULARY)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = write_target(Path(folder) / "target.gguf", shape)
        sessions = {
            name: stack.enter_context(open_session(spec="mtp", draft_max=DRAFT_MAX, model=model, **COMMON, **head))
            for name, head in cost_heads(Path(folder), model).items()
        }
        plain = stack.enter_context(open_session(spec="off", model=model, **COMMON))
        truth = list(plain.generate(PROMPT, max_tokens=tokens).result().tokens)
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in sessions}
        for turn in range(repeats + 1):
            for name, session in sessions.items():
                result = session.generate(PROMPT, max_tokens=tokens).result()
                assert list(result.tokens) == truth, name
                if turn > 0:
                    samples[name].append(cost_of_a_round(result.report))
        facts = {name: session.plan.shown.get("drafter", {}) for name, session in sessions.items()}
    return {
        "draft_max": DRAFT_MAX,
        "vocabulary": VOCABULARY,
        "hidden": shape.hidden,
        "repeats": repeats,
        "tokens": tokens,
        "heads": {
            name: {
                "head_bytes": facts[name].get("fr_head_bytes", 0),
                "round_ms": [round(sample[0], 4) for sample in samples[name]],
                "draft_ms": [round(sample[1], 4) for sample in samples[name]],
            }
            for name in sessions
        },
    }


def cost_of_a_round(report: Report) -> tuple[float, float]:
    """Return milliseconds of a round and of its drafting; rounds are alike only where nothing is accepted."""
    assert report.accepted_tokens == 0, f"{report.accepted_tokens} drafts were accepted"
    times = report.timings_ns
    return (times.total - times.prefill) / report.rounds / 1e6, times.draft / report.rounds / 1e6


def cost_heads(folder: Path, model: Path) -> dict[str, Head]:
    """Return the settings of each head; a ranked one holds tokens from all over the vocabulary."""
    path = folder / "cost.map.gguf"
    write_fr_map(
        path,
        FrMap(
            token_ids=STRIDE * np.arange(max(ROWS)) % VOCABULARY,
            vocabulary_tokens=VOCABULARY,
            tokenizer_fingerprint=str(tokenizer_fingerprint(scan_header(model))),
            corpus_sha256="0" * 64,
            corpus_tokens=1,
            covered_tokens=1,
        ),
    )
    heads: dict[str, Head] = {"whole": {}}
    for rows in ROWS:
        heads[f"ranked {rows}"] = {"mtp_fr_vocab_size": rows, "mtp_fr_map": path}
        heads[f"plain {rows}"] = {"mtp_fr_vocab_size": rows}
    return heads
