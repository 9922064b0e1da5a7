"""Where the prompt comes from: exactly one of an argument, a file, and standard input; always UTF-8, taken as it is."""

from __future__ import annotations

import sys
from pathlib import Path

from power_core.cli.console import usage_error
from power_core.config import is_unicode
from power_core.errors import PromptError

STANDARD_INPUT = "-"
MAX_PROMPT_BYTES = 67_108_864


def read_prompt(text: str | None, file: Path | None, source: str | None) -> str:
    """Return the prompt.

    Args:
        text: Value of ``--prompt``.
        file: Value of ``--prompt-file``; ``-`` is standard input.
        source: Positional argument; only ``-`` is allowed.

    Raises:
        ConfigError: none or several of the three were given, or the argument is not ``-``.
        PromptError: the source cannot be read or is not valid text.
    """
    if source not in (None, STANDARD_INPUT):
        message = f"the argument {source!r} is not expected, only - for standard input; a prompt follows --prompt"
        raise usage_error(message, command="generate", field="prompt")
    given = [name for name, value in (("--prompt", text), ("--prompt-file", file), ("-", source)) if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        message = f"expected exactly one of --prompt TEXT, --prompt-file FILE and -, got {found}"
        raise usage_error(message, command="generate", field="prompt")
    if text is not None:
        if not is_unicode(text):
            raise PromptError("--prompt is not valid UTF-8 text", field="prompt", value=text)
        return text
    if file is None or str(file) == STANDARD_INPUT:
        return _decode(_read_input(), "standard input")
    return _decode(_read_file(file), str(file))


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            return handle.read(MAX_PROMPT_BYTES + 1)
    except IsADirectoryError as error:
        raise _unreadable(f"{path} is a directory, expected a text file") from error
    except FileNotFoundError as error:
        raise _unreadable(f"{path} does not exist, expected a text file") from error
    except OSError as error:
        raise _unreadable(f"{path} cannot be read: {error.strerror}") from error


def _read_input() -> bytes:
    if sys.stdin is None:
        raise _unreadable("standard input is closed, and - reads the prompt from it")
    return sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)


def _decode(data: bytes, name: str) -> str:
    if len(data) > MAX_PROMPT_BYTES:
        raise _unreadable(f"{name} has more than {MAX_PROMPT_BYTES} bytes, too much for any context")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"{name} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
        raise PromptError(message, field="prompt", hint="save the prompt as UTF-8 text") from error


def _unreadable(message: str) -> PromptError:
    return PromptError(message, field="prompt", hint="check the path after --prompt-file, or use --prompt TEXT")
