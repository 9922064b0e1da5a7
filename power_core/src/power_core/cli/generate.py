"""``power generate``: open a session, deliver the text, then the report."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.chat import render_chat, tokenize_chat
from power_core.cli.console import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    flush_out,
    out_is_terminal,
    usage_error,
    write_err,
    write_out,
)
from power_core.cli.interrupt import cancel_on_interrupt
from power_core.cli.progress import ProgressView
from power_core.cli.prompt_source import read_prompt
from power_core.cli.report_view import format_report
from power_core.config import resolve
from power_core.generation import Generation
from power_core.json_text import json_text
from power_core.opening import open_session
from power_core.report import GenerationResult
from power_core.session import Session
from power_core.settings import RequestSettings, SessionSettings


@attrs.frozen(kw_only=True)
class GenerateOrder:
    """What the command line asked for; ``flags`` holds the settings by field, the rest is about input and output."""

    flags: Mapping[str, Any]
    config: Path | None
    prompt: str | None
    prompt_file: Path | None
    source: str | None
    chat: bool
    stream: bool | None
    json: bool


def run_generate(order: GenerateOrder) -> int:
    """Generate and return the exit status. Standard output stays empty until there is something to show.

    Raises:
        PowerError: nothing, or with streaming the text so far, was written.
    """
    if order.stream and order.json:
        raise usage_error("--stream and --json exclude each other", command="generate", field="stream")
    configuration = resolve(order.flags, order.config)
    if configuration.request.logprobs is not None and not order.json:
        raise usage_error("--logprobs needs --json, which shows them", command="generate", field="logprobs")
    prompt = read_prompt(order.prompt, order.prompt_file, order.source)
    stream = order.stream if order.stream is not None else out_is_terminal() and not order.json
    with ProgressView() as progress, _open(configuration.session, progress) as session:
        generation = _start(session, prompt, configuration.request, chat=order.chat, progress=progress)
        with cancel_on_interrupt(generation.cancel):
            result = _decode(generation, progress, configuration.request.max_tokens, stream=stream)
        progress.stop()
        _show(result, streamed=stream, as_json=order.json)
    return EXIT_INTERRUPTED if result.finish_reason == "cancelled" else EXIT_OK


def _open(settings: SessionSettings, progress: ProgressView) -> Session:
    """Open the session; Ctrl-C ends the loading at its next step, outside the library's own frames."""
    interrupted = threading.Event()

    def on_progress(phase: str, done: int, total: int) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        progress.update(phase, done, total)

    with cancel_on_interrupt(interrupted.set):
        session = open_session(settings, progress=on_progress)
    if interrupted.is_set():
        session.close()
        raise KeyboardInterrupt
    return session


def _start(
    session: Session, prompt: str, request: RequestSettings, *, chat: bool, progress: ProgressView
) -> Generation:
    def on_prefill(done: int, total: int) -> None:
        progress.update("prefill", done, total)

    if not chat:
        return session.generate(prompt, request, on_prefill=on_prefill)
    rendered = render_chat(session.model, [{"role": "user", "content": prompt}])
    generation = session.generate(tokenize_chat(session.model, rendered), request, on_prefill=on_prefill)
    generation.report.add_event("chat_template", sha256=rendered.template_sha256)
    return generation


def _decode(generation: Generation, progress: ProgressView, max_tokens: int, *, stream: bool) -> GenerationResult:
    """Run to the end. An interrupt ends it early with what there is; an error in mid-text ends the terminal's line."""
    writer = TextWriter()
    try:
        for done, piece in enumerate(generation, start=1):
            if stream:
                progress.stop()
                writer.write(piece.text)
            else:
                progress.update("decode", done, max_tokens)
    except KeyboardInterrupt:
        generation.cancel()
        for piece in generation:
            if stream:
                writer.write(piece.text)
    finally:
        writer.end_line()
    return generation.result()


class TextWriter:
    """Writes pieces of text as they come."""

    def __init__(self) -> None:
        self._line_open = False

    def write(self, text: str) -> None:
        """Show a piece at once."""
        if text:
            write_out(text)
            flush_out()
            self._line_open = not text.endswith("\n")

    def end_line(self) -> None:
        """Let a terminal go on in a new line; a file gets the text and nothing else."""
        if self._line_open and out_is_terminal():
            write_out("\n")
            flush_out()
        self._line_open = False


def _show(result: GenerationResult, *, streamed: bool, as_json: bool) -> None:
    if as_json:
        write_out(json_text(result.to_dict()))
        flush_out()
        return
    if not streamed:
        writer = TextWriter()
        writer.write(result.text)
        writer.end_line()
    write_err("\n" + format_report(result))
