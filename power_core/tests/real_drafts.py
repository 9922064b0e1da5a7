"""A random-weight block draft for a real target: the tiny draft's keys and weights, with the target's own tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from power_core.testing.drafts import DraftKind, build_tiny_draft
from power_core.testing.parity import reference, run_parity
from power_core.testing.tokenizer import VOCABULARY_TOKENS

TOKENIZER = "tokenizer."
WRITTEN_BY_THE_WRITER = "GGUF."
DEVIATION = 0.05


def build_real_draft(path: Path, *, kind: DraftKind, target: Path, mask_token: str, **form) -> Path:
    """Write a draft with the target's width and vocabulary; tensors with a row a token are drawn anew as F16."""
    target_file = GGUFReader(target)
    tokens = [str(token) for token in target_file.fields["tokenizer.ggml.tokens"].contents()]
    width = target_file.fields[f"{_text(target_file, 'general.architecture')}.embedding_length"].contents()
    with TemporaryDirectory() as folder:
        tiny = GGUFReader(
            build_tiny_draft(Path(folder) / "tiny.gguf", kind=kind, target="sliding-window", hidden=width, **form)
        )
        writer = GGUFWriter(path, "dflash")
        _copy_fields(writer, tiny, lambda name: not name.startswith((TOKENIZER, WRITTEN_BY_THE_WRITER)))
        _copy_fields(writer, target_file, lambda name: name.startswith(TOKENIZER))
        writer.add_mask_token_id(tokens.index(mask_token))
        for name, values in _tensors(tiny, len(tokens)):
            writer.add_tensor(name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return path


def _copy_fields(writer: GGUFWriter, source: GGUFReader, wanted) -> None:
    for name, field in source.fields.items():
        if wanted(name) and name != "general.architecture":
            kind = field.types[0]
            element = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=element)


def _tensors(tiny: GGUFReader, vocabulary_tokens: int) -> Iterator[tuple[str, np.ndarray]]:
    random = np.random.default_rng(0)
    for tensor in tiny.tensors:
        values = tensor.data
        if values.shape[0] == VOCABULARY_TOKENS:
            values = (random.standard_normal((vocabulary_tokens, values.shape[1]), np.float32) * DEVIATION).astype("f2")
        yield tensor.name, np.ascontiguousarray(values)


def _text(reader: GGUFReader, key: str) -> str:
    return str(reader.fields[key].contents())


def long_prompts(pages: Path, least_characters: int) -> list[str]:
    """Return texts of at least that many characters, the beginnings of the documentation's decisions put together."""
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in sorted(pages.glob("000*.md")))
    return [text[start : start + least_characters] for start in (0, 3000, 6000)]


def check_parity_across_the_window(target: Path, draft: Path, kind: DraftKind, pages: Path) -> None:
    """Compare greedy output with plain decoding across the end of the window's ring, own and forced drafts.

    The window is 512 tokens; with 64 rows an evaluation its ring has 768 cells, which 768 tokens fill.
    """
    common = {"ctx": 1024, "batch": 64, "threads": 2}
    truth = reference(target, long_prompts(pages, 3000), 120, **common)
    assert all(512 < len(prompt) < 768 < len(prompt) + 120 for prompt in truth)
    for forced, draft_max in ((None, 4), ("partial", 7)):
        run = run_parity(target, truth, forced, kind, draft=draft, draft_max=draft_max, **common)
        assert run.differing == ()
        assert run.drafted_tokens > run.accepted_tokens
        assert (run.accepted_tokens > 0) == (forced is not None)
