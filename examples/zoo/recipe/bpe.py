"""Byte-level BPE of the zoo, trained on its text, with the pre-tokenizer that GGUF files call ``qwen2``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import attrs
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
MASK = "<|mask|>"
SPECIAL_TOKENS = (END_OF_TEXT, MASK)
GGUF_PRE_TOKENIZER = "qwen2"
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Iterable[str], vocabulary_tokens: int) -> Tokenizer:
    """Train a tokenizer of exactly ``vocabulary_tokens`` tokens, the special ones first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_tokens,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@attrs.frozen(kw_only=True)
class Vocabulary:
    """Tables of a tokenizer as a GGUF stores them.

    Attributes:
        tokens: Token texts by id, in the byte-to-unicode alphabet.
        merges: Pairs in order of rank, separated by a space.
        end_of_text: Id of the end token.
        mask: Id of the mask token.
    """

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    end_of_text: int
    mask: int


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the tables of a saved tokenizer (``tokenizer.json``)."""
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    ids: dict[str, int] = model["vocab"]
    merges = (merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"])
    return Vocabulary(
        tokens=tuple(sorted(ids, key=ids.__getitem__)),
        merges=tuple(merges),
        end_of_text=ids[END_OF_TEXT],
        mask=ids[MASK],
    )
