"""Acceptance of drafts from fewer tokens, by domain, on the trained target of the zoo."""

from __future__ import annotations

import json
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import power_zoo

from power_core import Session, open_session
from power_mtp.fr_map import FrMap, write_fr_map
from power_mtp.rank_tool import build_fr_map
from power_mtp.ranking import CorpusCount

PROMPTS = Path(__file__).with_name("prompts") / "mixed.json"
DRAFT_MAX = 3
ROWS = (64, 256, 512, 1024)
COMMON: dict[str, Any] = {"ctx": 2048, "batch": 128, "threads": 1}

Head = dict[str, Any]


def zoo_heads(folder: Path) -> tuple[dict[str, Head], FrMap, CorpusCount]:
    """Return the settings of each head, and the map that ranks their tokens."""
    corpus = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    fr_map, count = build_fr_map(power_zoo.target_path(), corpus, None)
    path = folder / "zoo.map.gguf"
    write_fr_map(path, fr_map)
    heads: dict[str, Head] = {"whole": {}}
    for rows in ROWS:
        heads[f"ranked {rows}"] = {"mtp_fr_vocab_size": rows, "mtp_fr_map": path}
        heads[f"plain {rows}"] = {"mtp_fr_vocab_size": rows}
    return heads, fr_map, count


def measure_zoo(n_prompts: int, tokens: int) -> dict[str, Any]:
    """Return counters by head and domain."""
    prompts = prompts_by_domain(n_prompts)
    with tempfile.TemporaryDirectory() as folder:
        heads, fr_map, count = zoo_heads(Path(folder))
        with open_session(spec="off", model=power_zoo.target_path(), **COMMON) as session:
            truth = {text: emitted(session, text, tokens) for texts in prompts.values() for text in texts}
        figures = {}
        for name, head in heads.items():
            with open_session(
                spec="mtp", draft_max=DRAFT_MAX, model=power_zoo.target_path(), **COMMON, **head
            ) as session:
                figures[name] = {domain: counters(session, texts, truth) for domain, texts in prompts.items()}
    for head_name, head in heads.items():
        rows = head.get("mtp_fr_vocab_size", fr_map.vocabulary_tokens)
        ids = set(fr_map.token_ids[:rows].tolist() if "mtp_fr_map" in head else range(rows))
        for domain, texts in prompts.items():
            used = [token for text in texts for token in truth[text]]
            figures[head_name][domain]["emitted_inside"] = sum(token in ids for token in used) / len(used)
    return {
        "draft_max": DRAFT_MAX,
        "prompts_per_domain": n_prompts,
        "tokens": tokens,
        "vocabulary": fr_map.vocabulary_tokens,
        "map": {
            "d2t_sha256": fr_map.d2t_sha256,
            "corpus_sha256": fr_map.corpus_sha256,
            "corpus_tokens": count.tokens,
            "corpus_share": {str(rows): count.covered(fr_map.token_ids[:rows]) / count.tokens for rows in ROWS},
        },
        "heads": figures,
    }


def prompts_by_domain(most: int) -> dict[str, list[str]]:
    """Return the first prompts of each domain."""
    domains: dict[str, list[str]] = {}
    for prompt in json.loads(PROMPTS.read_text(encoding="utf-8")):
        domains.setdefault(prompt["domain"], []).append(prompt["text"])
    return {domain: texts[:most] for domain, texts in domains.items()}


def emitted(session: Session, prompt: str, tokens: int) -> list[int]:
    """Return what a session emits."""
    return list(session.generate(prompt, max_tokens=tokens).result().tokens)


def counters(session: Session, prompts: list[str], truth: dict[str, list[int]]) -> dict[str, float]:
    """Return acceptance over all prompts of a domain; every output has to be that of plain decoding."""
    reports = []
    for prompt in prompts:
        result = session.generate(prompt, max_tokens=len(truth[prompt])).result()
        assert list(result.tokens) == truth[prompt], f"{prompt!r} differs from plain decoding"
        reports.append(result.report)
    drafted, accepted = sum(each.drafted_tokens for each in reports), sum(each.accepted_tokens for each in reports)
    rounds, verified = sum(each.rounds for each in reports), sum(each.verified_tokens for each in reports)
    return {
        "drafted": drafted,
        "accepted": accepted,
        "acceptance": accepted / drafted,
        "tokens_per_target_pass": verified / rounds,
    }
