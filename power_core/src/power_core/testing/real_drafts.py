"""A random-weight block draft for a real target: a tiny draft's keys and weights with the target's own tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from power_core.testing.draft_weights import DraftKind
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.tokenizer import VOCABULARY_TOKENS

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

TOKENIZER = "tokenizer."
WRITTEN_BY_THE_WRITER = "GGUF."
DEVIATION = 0.05


def build_real_draft(path: Path, *, kind: DraftKind, target: Path, mask_token: str, **form: Any) -> Path:
    """Write a draft with the target's width and vocabulary; tensors with a row a token are drawn anew as F16.

    Args:
        path: Where to write; the folder must exist.
        kind: As ``build_tiny_draft``.
        target: The target's GGUF; its hidden width must be a multiple of 128.
        mask_token: Text of the token that fills the rows of a block.
        **form: As ``build_tiny_draft``.

    Returns:
        ``path``.

    Raises:
        ValueError: the target's vocabulary has no token ``mask_token``.
    """
    from gguf import GGUFReader, GGUFWriter

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


def _copy_fields(writer: GGUFWriter, source: GGUFReader, wanted: Callable[[str], bool]) -> None:
    from gguf import GGUFValueType

    for name, field in source.fields.items():
        if wanted(name) and name != "general.architecture":
            kind = field.types[0]
            element = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=element)


def _tensors(tiny: GGUFReader, vocabulary_tokens: int) -> Iterator[tuple[str, NDArray[Any]]]:
    random = np.random.default_rng(0)
    for tensor in tiny.tensors:
        values: NDArray[Any] = tensor.data
        if values.shape[0] == VOCABULARY_TOKENS:
            values = (random.standard_normal((vocabulary_tokens, values.shape[1]), np.float32) * DEVIATION).astype("f2")
        yield tensor.name, np.ascontiguousarray(values)


def _text(reader: GGUFReader, key: str) -> str:
    return str(reader.fields[key].contents())
