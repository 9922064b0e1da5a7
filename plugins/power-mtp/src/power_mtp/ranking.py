"""Token frequencies of texts, and the tokens that a draft head of fewer rows should have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.errors import ConfigError, out_of_range
from power_core.target import Vocabulary

CHUNK_CHARACTERS = 1 << 20

TokenCounts = NDArray[np.int64]


@attrs.frozen(kw_only=True, eq=False)
class CorpusCount:
    """What was counted.

    Attributes:
        counts: int64[vocabulary], occurrences of each token.
        sha256: Digest of the files' bytes, one after the other.
    """

    counts: TokenCounts
    sha256: str

    @property
    def tokens(self) -> int:
        """Tokens of the corpus."""
        return int(self.counts.sum())

    def covered(self, token_ids: NDArray[np.int64]) -> int:
        """Tokens of the corpus that are among ``token_ids``."""
        return int(self.counts[token_ids].sum())


def count_corpus(paths: Sequence[Path], vocabulary: Vocabulary, n_vocab: int) -> CorpusCount:
    """Count the tokens of UTF-8 files with the target's own tokenizer.

    Files are read in pieces of whole lines; a token never reaches from one piece into the next.

    Raises:
        ConfigError: a file cannot be read, or is not UTF-8.
    """
    counts, digest = np.zeros(n_vocab, np.int64), hashlib.sha256()
    for path in paths:
        for text in _pieces(path):
            digest.update(text.encode())
            tokens = np.asarray(vocabulary.tokenize(text, add_special=False), np.int64)
            counts += np.bincount(tokens, minlength=n_vocab)
    return CorpusCount(counts=counts, sha256=digest.hexdigest())


def rank_tokens(counts: TokenCounts, rows: int | None, always: Iterable[int]) -> NDArray[np.int64]:
    """Return the tokens of a head, the most frequent first, the lower id first among equally frequent ones.

    Args:
        counts: Occurrences of each token.
        rows: How many; None takes every token that occurs, and those of ``always``.
        always: Tokens that have a row whatever their frequency: where they are missing they take the place of the
            rarest ones.

    Raises:
        ConfigError: fewer tokens occur than there should be rows, or ``always`` alone is more.
    """
    order = np.lexsort((np.arange(counts.size), -counts))
    occurring = order[counts[order] > 0]
    wanted = np.array(sorted(set(always)), np.int64)
    if rows is None:
        return np.concatenate((occurring, np.setdiff1d(wanted, occurring)))
    if not wanted.size <= rows <= occurring.size:
        raise out_of_range(
            "rows",
            rows,
            f"from {wanted.size} end tokens to the {occurring.size} different tokens that occur in the text",
            hint="count more text, or ask for other `--rows`",
        )
    missing = np.setdiff1d(wanted, occurring[:rows])
    others = occurring[~np.isin(occurring, missing)]
    return _replace_rarest(others[:rows], missing, wanted)


def _replace_rarest(
    ranked: NDArray[np.int64], missing: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Put ``missing`` in the place of the last of ``ranked`` that are not ``wanted`` themselves."""
    free = np.flatnonzero(~np.isin(ranked, wanted))
    chosen = ranked.copy()
    chosen[free[free.size - missing.size :]] = missing
    return chosen


def end_tokens(vocabulary: Vocabulary, n_vocab: int) -> Iterator[int]:
    """Yield the tokens that end a text: without a row for them the head could never draft an end."""
    return (token for token in range(n_vocab) if vocabulary.is_end(token))


def _pieces(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            while lines := handle.readlines(CHUNK_CHARACTERS):
                yield "".join(lines)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"no UTF-8: {error.reason}, byte {error.start}") from error


def _unreadable(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"the text {path} cannot be counted: {reason}",
        field="corpus",
        value=str(path),
        allowed="readable UTF-8 text files",
        hint="check the file and its permissions",
    )
