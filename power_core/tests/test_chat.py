"""Chat templates: rendering, the digest, BOS, and templates that are missing, broken or hostile."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs
import pytest

from power_core.chat import MAX_RENDERED_CHARACTERS, ChatPrompt, render_chat, tokenize_chat
from power_core.errors import ConfigError
from power_core.testing.fakes import FakeModel

MESSAGES = [{"role": "user", "content": "Hi"}]
SIMPLE = """{{ bos_token }}
{% for message in messages %}
    <|{{ message.role }}|>{{ message.content }}
{% endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""


class MarkVocabulary:
    """Knows ``<s>`` as token 1 and ``</s>`` as token 2; records how it was asked to tokenize."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool, bool]] = []

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        self.asked.append((text, add_special, parse_special))
        return [1] if add_special else []

    def token_bytes(self, token: int, *, special: bool = False) -> bytes:
        return {1: b"<s>", 2: b"</s>"}[token] if special else b""

    def is_end(self, token: int) -> bool:
        return token == 2


def model_with(template: str | None, *, add_bos: bool = False, marks: bool = True) -> FakeModel:
    model = FakeModel()
    model.vocabulary = MarkVocabulary()
    bos, eos = (1, 2) if marks else (None, None)
    model.info = attrs.evolve(model.info, chat_template=template, bos=bos, eos=eos, add_bos=add_bos)
    return model


def render(template: str, messages: Sequence[dict[str, str]] = MESSAGES, **options: bool) -> str:
    return render_chat(model_with(template), messages, **options).text


def test_the_template_turns_messages_into_text():
    assert render(SIMPLE) == "<s>\n    <|user|>Hi\n<|assistant|>"
    assert render(SIMPLE, add_generation_prompt=False) == "<s>\n    <|user|>Hi\n"


def test_the_digest_is_that_of_the_template():
    prompt = render_chat(model_with(SIMPLE), MESSAGES)
    assert prompt.template_sha256 == hashlib.sha256(SIMPLE.encode()).hexdigest()


def test_tokens_that_the_model_lacks_are_empty():
    text = render_chat(model_with("[{{ bos_token }}{{ eos_token }}]", marks=False), MESSAGES).text
    assert text == "[]"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "Hi"}]'),
        ('{{ {"a": "<é>"} | tojson }}', '{"a": "<é>"}'),
        ('{{ {"a": 1} | tojson(indent=2) }}', '{\n  "a": 1\n}'),
        ('{{ {"b": 1, "a": 2} | tojson(sort_keys=true) }}', '{"a": 2, "b": 1}'),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}!", "Hi!"),
        ("{% if tools is not none %}tools{% endif %}{{ missing }}", ""),
        ("{{ strftime_now('%%') }}", "%"),
    ],
)
def test_the_usual_helpers_work(template: str, text: str):
    assert render(template) == text


def test_rendering_leaves_the_messages_alone():
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises(ConfigError):
        render("{{ messages.append(1) }}", messages)
    assert messages == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("template", [None, "", "  \n"])
def test_a_model_without_template_is_refused_with_a_next_step(template: str | None):
    with pytest.raises(ConfigError, match="no chat template") as caught:
        render_chat(model_with(template), MESSAGES)
    assert caught.value.code == "config.chat_template"
    assert "leave --chat out" in caught.value.hint


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "TemplateError: roles must alternate"),
        ("{% for %}", "TemplateSyntaxError"),
        ("{% unknown_tag %}", "TemplateSyntaxError"),
        ("{{ messages[0].content.x.y }}", "UndefinedError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ messages[0].__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
        ("{% for i in range(10 ** 9) %}x{% endfor %}", "OverflowError"),
        ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", f"more than {MAX_RENDERED_CHARACTERS} characters"),
    ],
)
def test_a_template_that_fails_is_a_typed_error(template: str, words: str):
    with pytest.raises(ConfigError, match="the model's chat template failed") as caught:
        render(template)
    assert words in str(caught.value)
    assert caught.value.code == "config.chat_template"
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("add_bos", "text", "tokenized"),
    [(True, "<s>Hi", "Hi"), (True, "Hi", "Hi"), (True, "<s><s>Hi", "<s>Hi"), (False, "<s>Hi", "<s>Hi")],
)
def test_a_model_that_wants_bos_gets_one(add_bos: bool, text: str, tokenized: str):
    model = model_with(SIMPLE, add_bos=add_bos)
    tokenize_chat(model, ChatPrompt(text=text, template_sha256=""))
    assert model.vocabulary.asked == [(tokenized, True, True)]
