"""Chat: the model's own template turns messages into a prompt, and its digest says which template that was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import attrs

from power_core.errors import ConfigError
from power_core.target import TargetModel
from power_core.tokens import TokenId

MAX_RENDERED_CHARACTERS = 16_777_216


@attrs.frozen(kw_only=True)
class ChatPrompt:
    """A rendered conversation.

    Attributes:
        text: What the template made of the messages; control tokens are written out.
        template_sha256: SHA-256 of the template, hexadecimal.
    """

    text: str
    template_sha256: str


def render_chat(
    model: TargetModel, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True
) -> ChatPrompt:
    """Apply the model's chat template, in a sandbox that can read its variables and change nothing.

    Args:
        model: Its ``info.chat_template`` and its begin and end tokens are used.
        messages: Mappings with ``role`` and ``content``, oldest first.
        add_generation_prompt: End where the assistant's answer begins.

    Raises:
        ConfigError: the model has no template, or the template refuses the messages or is itself broken.
    """
    source = model.info.chat_template
    if source is None or not source.strip():
        raise ConfigError(
            "the model has no chat template, and --chat needs one",
            field="chat",
            hint="leave --chat out and write the prompt in the model's own format",
            code="config.chat_template",
        )
    values = {
        "messages": [dict(message) for message in messages],
        "add_generation_prompt": add_generation_prompt,
        "bos_token": _token_text(model, model.info.bos),
        "eos_token": _token_text(model, model.info.eos),
        "tools": None,
        "documents": None,
    }
    return ChatPrompt(text=_render(source, values), template_sha256=hashlib.sha256(source.encode()).hexdigest())


def tokenize_chat(model: TargetModel, prompt: ChatPrompt) -> list[TokenId]:
    """Tokenize a rendered conversation: written control tokens become tokens; a model that wants BOS gets just one."""
    text = prompt.text
    if model.info.add_bos:
        text = text.removeprefix(_token_text(model, model.info.bos))
    return model.vocabulary.tokenize(text, add_special=True, parse_special=True)


def _token_text(model: TargetModel, token: TokenId | None) -> str:
    return "" if token is None else model.vocabulary.token_bytes(token, special=True).decode("utf-8", "replace")


def _render(source: str, values: Mapping[str, Any]) -> str:
    try:
        template = _environment().from_string(source)
        pieces: list[str] = []
        characters = 0
        for piece in template.generate(**values):
            pieces.append(piece)
            characters += len(piece)
            if characters > MAX_RENDERED_CHARACTERS:
                _refuse_message(f"its text has more than {MAX_RENDERED_CHARACTERS} characters")
        return "".join(pieces)
    except Exception as error:  # a template is a program from the model's file and may fail in any way
        raise ConfigError(
            f"the model's chat template failed: {type(error).__name__}: {error}",
            field="chat",
            hint="leave --chat out and write the prompt in the model's own format",
            code="config.chat_template",
        ) from error


def _environment() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_extension()]
    )
    environment.globals["raise_exception"] = _refuse_message
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    environment.filters["tojson"] = _to_json
    return environment


def _generation_extension() -> Any:
    """``{% generation %}`` marks the assistant's words for training; rendering shows them as they are."""
    from jinja2.ext import Extension

    class GenerationTag(Extension):
        tags = {"generation"}  # noqa: RUF012 - the attribute's name and type are Jinja's

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return GenerationTag


def _refuse_message(message: str) -> NoReturn:
    from jinja2.exceptions import TemplateError

    raise TemplateError(message)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """Plain JSON: unlike Jinja's own filter it does not escape for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)
