"""``power-fr-map``: rank a target's tokens by their frequency in text files, for ``--mtp-fr-map``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from power_core.artifacts import scan_header, tokenizer_fingerprint
from power_core.errors import ConfigError, PowerError
from power_core.plugins.manager import load_plugins
from power_core.target import ModelSettings
from power_mtp.fr_map import FrMap, write_fr_map
from power_mtp.ranking import CorpusCount, count_corpus, end_tokens, rank_tokens

EXIT_OK, EXIT_ERROR, EXIT_USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a map and print how much of the text it covers; 2 for the user's mistakes, 1 for other errors."""
    options = _parser().parse_args(arguments)
    try:
        if not options.force:
            _require_new(options.out)
        fr_map, corpus = build_fr_map(options.model, options.corpus, options.rows)
        _write(options.out, fr_map)
    except PowerError as error:
        print(f"error[{error.code}]: {error}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)
        return EXIT_USAGE if error.user_mistake else EXIT_ERROR
    print("\n".join(_lines(options.out, fr_map, corpus)))
    return EXIT_OK


def build_fr_map(model: Path, corpus: Sequence[Path], rows: int | None) -> tuple[FrMap, CorpusCount]:
    """Count the text with the target's tokenizer and rank its tokens; end tokens always have a row.

    Args:
        model: The target.
        corpus: UTF-8 text files.
        rows: Tokens of the map; None takes all that occur.

    Raises:
        ConfigError: a text cannot be read, holds nothing, or has fewer different tokens than ``rows``.
        ArtifactError: the target is absent or damaged.
    """
    header = scan_header(model)
    target = load_plugins().backend().open_model(ModelSettings(path=model), None)
    try:
        n_vocab = target.info.n_vocab
        count = count_corpus(corpus, target.vocabulary, n_vocab)
        if count.tokens == 0:
            raise ConfigError(
                "the files hold no token",
                field="corpus",
                value=[str(path) for path in corpus],
                allowed="text files that are not empty",
                hint="give text of the kind that will be generated",
            )
        token_ids = rank_tokens(count.counts, rows, end_tokens(target.vocabulary, n_vocab))
    finally:
        target.close()
    fr_map = FrMap(
        token_ids=token_ids,
        vocabulary_tokens=n_vocab,
        tokenizer_fingerprint=str(tokenizer_fingerprint(header)),
        corpus_sha256=count.sha256,
        corpus_tokens=count.tokens,
        covered_tokens=count.covered(token_ids),
    )
    return fr_map, count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="power-fr-map", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="target model, a GGUF file")
    parser.add_argument("--rows", type=int, metavar="N", help="tokens of the map; default: all that occur in the text")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the map, a GGUF file")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("corpus", type=Path, nargs="+", metavar="TEXT", help="UTF-8 text files to count")
    return parser


def _require_new(path: Path) -> None:
    if path.exists():
        raise ConfigError(
            f"{path} exists", field="out", value=str(path), allowed="a new file", hint="use `--force` to replace it"
        )


def _write(path: Path, fr_map: FrMap) -> None:
    try:
        write_fr_map(path, fr_map)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}",
            field="out",
            value=str(path),
            allowed="a path in a folder that exists and can be written",
            hint="make the folder, or choose another one",
        ) from error


def _lines(path: Path, fr_map: FrMap, corpus: CorpusCount) -> Iterator[str]:
    yield f"{path}: {len(fr_map.token_ids)} of {fr_map.vocabulary_tokens} tokens, d2t SHA-256 {fr_map.d2t_sha256}"
    yield f"corpus: {fr_map.corpus_tokens} tokens, SHA-256 {fr_map.corpus_sha256}"
    yield "share of corpus tokens inside the set (how often drafts are accepted is another figure):"
    rows = 1
    while rows < len(fr_map.token_ids):
        rows = min(2 * rows, len(fr_map.token_ids))
        if rows >= 64 or rows == len(fr_map.token_ids):
            yield f"  {rows:>7} rows {corpus.covered(fr_map.token_ids[:rows]) / corpus.tokens:8.2%}"


if __name__ == "__main__":
    sys.exit(main())
