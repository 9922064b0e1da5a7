"""Learns a table from text: ``python -m power_rowlookup.learn TARGET.gguf TEXT.txt OUT.gguf``."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from power_core.artifacts import scan_header
from power_core.plugins.manager import load_plugins
from power_core.target import ContextSettings, ModelSettings, TargetContext
from power_core.tokens import SequenceRows, TapRequest
from power_rowlookup.table import NOTHING, Table, random_directions, write_table

LAYER, BITS, DRAFTS = 1, 8, 4
CTX_TOKENS, CHUNK_ROWS = 512, 128


def learn(target: Path, text: str, out: Path) -> int:
    """Write a table for ``target``; return how many rows of the text it was learned from."""
    header = scan_header(target)
    model = load_plugins().backend().open_model(ModelSettings(path=target), None)
    taps = TapRequest(layers=(LAYER,))
    context = model.open_context(ContextSettings(ctx_tokens=CTX_TOKENS, batch_rows=CHUNK_ROWS, taps=taps))
    try:
        directions = random_directions(BITS, model.info.n_embd)
        following = np.full((2**BITS, DRAFTS), NOTHING, np.int32)
        table = Table(scan_header(write_table(out, header, LAYER, directions, following)), model.info.n_vocab)
        tokens = model.vocabulary.tokenize(text)
        seen: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
        for start in range(0, len(tokens), CTX_TOKENS):
            piece = tokens[start : start + CTX_TOKENS]
            for at, code in enumerate(codes_of(context, table, piece)):
                seen[code][tuple(piece[at + 2 : at + 2 + DRAFTS])] += 1
        for code, counts in seen.items():
            best = max(counts, key=lambda tokens: (len(tokens), counts[tokens]))
            following[code, : len(best)] = best
        write_table(out, header, LAYER, directions, following)
        return len(tokens)
    finally:
        context.close()
        model.close()


def codes_of(context: TargetContext, table: Table, tokens: list[int]) -> list[int]:
    """Return the code of each token's hidden row."""
    context.clear()
    codes = []
    for at in range(0, len(tokens), CHUNK_ROWS):
        rows = SequenceRows(start_pos=at, tokens=tokens[at : at + CHUNK_ROWS], logits="none")
        context.evaluate((rows,), kernels="prefill")
        layers = context.read_taps(0, len(rows.tokens)).layers
        assert layers is not None, "the context was opened with taps"
        codes += [table.code(row) for row in layers[:, 0]]
    return codes


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m power_rowlookup.learn TARGET.gguf TEXT.txt OUT.gguf")
    target, text, out = map(Path, sys.argv[1:])
    print(f"learned from {learn(target, text.read_text(encoding='utf-8'), out)} rows")
