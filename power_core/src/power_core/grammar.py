"""The text of a grammar, from the settings or from their file."""

from __future__ import annotations

from pathlib import Path

from power_core.errors import ConfigError
from power_core.sampler import MOST_GRAMMAR_BYTES, SamplingSettings


def read_grammar(settings: SamplingSettings) -> str:
    """Return the grammar's text, empty without a grammar.

    Raises:
        ConfigError: the file cannot be read, is empty or too large, or is not text.
    """
    if settings.grammar_file is None:
        return settings.grammar
    path = settings.grammar_file
    try:
        with path.open("rb") as handle:
            data = handle.read(MOST_GRAMMAR_BYTES + 1)
    except OSError as error:
        raise _file_error(path, f"cannot be read: {error.strerror}") from error
    if not data.strip():
        raise _file_error(path, "is empty")
    if len(data) > MOST_GRAMMAR_BYTES:
        raise _file_error(path, f"has more than {MOST_GRAMMAR_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _file_error(path, f"is not UTF-8 text (byte {error.start})") from error


def _file_error(path: Path, problem: str) -> ConfigError:
    return ConfigError(
        f"the grammar file {str(path)!r} {problem}",
        field="grammar_file",
        value=str(path),
        allowed="a file with GBNF text",
        hint="check the path after --grammar-file (`grammar_file`)",
    )
