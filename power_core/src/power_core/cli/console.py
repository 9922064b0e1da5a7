"""Errors as one line on standard error, and the exit status that goes with each.

Standard output carries the answer alone; everything else goes to standard error.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from power_core.errors import ConfigError, PowerError

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

MAX_LINE_CHARACTERS = 2000


def run_guarded(action: Callable[[], int], *, debug: bool) -> int:
    """Run a command and return its exit status; whatever it raises becomes one line, with a traceback under ``debug``.

    2 for the user's mistakes, 1 for every other error, 130 for an interrupt, 141 when the reader of the output is gone.
    """
    try:
        status = action()
        flush_out()
    except PowerError as error:
        print_error(error.code, str(error), error.hint, cause=error if debug else None)
        return EXIT_USAGE if error.user_mistake else EXIT_ERROR
    except BrokenPipeError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt as error:
        print_error("cancelled", "interrupted", cause=error if debug else None)
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: nobody but --debug sees a traceback
        text = f"internal error: {type(error).__name__}: {error}"
        print_error("internal", text, "run again with --debug and report the traceback", cause=error if debug else None)
        return EXIT_ERROR
    return status


def usage_error(message: str, *, command: str, field: str = "") -> ConfigError:
    """Return the error for a command line that contradicts itself."""
    return ConfigError(message, field=field, hint=f"see `power {command} --help`", code="config.usage")


def print_error(code: str, message: str, hint: str = "", *, cause: BaseException | None = None) -> None:
    """Write ``error[code]: message`` and ``hint: ...`` to standard error, after the traceback of ``cause``."""
    if cause is not None:
        write_err("".join(traceback.format_exception(cause)))
    write_err(f"{_styled(f'error[{code}]:', '1;31')} {fold_line(message)}\n")
    if hint:
        write_err(f"{_styled('hint:', '1;36')} {fold_line(hint)}\n")


def fold_line(text: str) -> str:
    """Return the text on one line, characters that could steer a terminal written out."""
    line = " ".join(text.split())
    if len(line) > MAX_LINE_CHARACTERS:
        line = line[:MAX_LINE_CHARACTERS] + "..."
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def write_out(text: str) -> None:
    """Write to standard output.

    Raises:
        ConfigError: standard output is closed.
        PowerError: it cannot be written.
        BrokenPipeError: its reader is gone.
    """
    if sys.stdout is None:
        raise ConfigError("standard output is closed", field="stdout", hint="redirect it to a file or /dev/null")
    _guard_output(lambda: sys.stdout.write(text))


def flush_out() -> None:
    """Hand what was written to the reader now, so that an error of the output is an error of the command."""
    if sys.stdout is not None:
        _guard_output(sys.stdout.flush)


def write_err(text: str) -> None:
    """Write to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def out_is_terminal() -> bool:
    """Tell whether a person reads standard output as it comes."""
    return sys.stdout is not None and sys.stdout.isatty()


def err_is_terminal() -> bool:
    """Tell whether a person reads standard error as it comes."""
    return sys.stderr is not None and sys.stderr.isatty()


def drop_output() -> None:
    """Send what is still buffered for standard output to nowhere: its reader is gone, and Python flushes at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _guard_output(action: Callable[[], object]) -> None:
    try:
        action()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        message = f"standard output cannot be written: {error.strerror}"
        raise PowerError(message, hint="check the disk it goes to", code="output.failed") from error


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if err_is_terminal() and not os.environ.get("NO_COLOR") else text
