"""Text to tokens and back."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from gguf import GGUFWriter
from hypothesis import example, given
from hypothesis import strategies as st

from power_core.errors import ConfigError
from power_core.target import ModelSettings, Vocabulary
from power_core.testing.models import build_tiny_target
from power_native import NativeModel

pytestmark = pytest.mark.native


@pytest.fixture(scope="session")
def vocabulary(models):
    return models["attention"].vocabulary


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
@example(text="")
@example(text="def fibonacci(n):\n\treturn n\x00\U0001f680é")
def test_any_text_comes_back_byte_for_byte(vocabulary, text):
    tokens = vocabulary.tokenize(text)
    assert b"".join(vocabulary.token_bytes(token) for token in tokens).decode("utf-8") == text


def test_vocabulary_meets_the_protocol(vocabulary):
    assert isinstance(vocabulary, Vocabulary)
    assert len(vocabulary) == 512


def test_long_text_needs_more_room_than_guessed(models):
    text = "word " * 5000
    tokens = models["sliding-window"].vocabulary.tokenize(text)
    joined = b"".join(models["sliding-window"].vocabulary.token_bytes(token) for token in tokens)
    assert joined.decode() == text


def test_room_is_enlarged_until_it_suffices(vocabulary, monkeypatch):
    """A library that reports more tokens than the buffer holds is asked again with room for them."""
    model = vocabulary._model
    real, capacities = model._call, []

    def call(symbol, *arguments):
        capacities.append(arguments[5])
        real(symbol, *arguments)
        if len(capacities) == 1:
            arguments[6]._obj.value = arguments[5] + 5

    monkeypatch.setattr(model, "_call", call)
    tokens = vocabulary.tokenize("some text")
    assert len(capacities) == 2
    assert capacities[1] == capacities[0] + 5
    monkeypatch.undo()
    assert tokens == vocabulary.tokenize("some text")


def test_control_tokens_are_parsed_on_request_only(vocabulary):
    text = "<|im_end|>"
    parsed = vocabulary.tokenize(text, parse_special=True)
    assert len(parsed) == 1
    assert len(vocabulary.tokenize(text)) > 1
    assert vocabulary.token_bytes(parsed[0]) == b""
    assert vocabulary.token_bytes(parsed[0], special=True) == text.encode()


def test_every_token_has_bytes_or_is_control(vocabulary):
    for token in range(len(vocabulary)):
        assert vocabulary.token_bytes(token, special=True) or vocabulary.token_bytes(token) == b""
        assert vocabulary.token_bytes(token) is vocabulary.token_bytes(token)


def test_end_tokens(models):
    vocabulary, eos = models["hybrid"].vocabulary, models["hybrid"].info.eos
    ends = [token for token in range(512) if vocabulary.is_end(token)]
    assert eos in ends
    assert len(ends) < 10
    assert not vocabulary.is_end(-1)
    assert not vocabulary.is_end(512)


@pytest.mark.parametrize("token", [-1, 512, 2**40])
def test_token_outside_the_vocabulary_is_refused(vocabulary, token):
    with pytest.raises(ConfigError, match="not in the vocabulary"):
        vocabulary.token_bytes(token)


def test_lone_surrogate_is_refused(vocabulary):
    with pytest.raises(ConfigError, match="cannot be encoded"):
        vocabulary.tokenize("a\ud800")


def test_many_threads_share_one_vocabulary(model_paths):
    with NativeModel.open(ModelSettings(path=model_paths["attention"])) as model:
        expected = model.vocabulary.tokenize("the quick brown fox " * 50)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: model.vocabulary.tokenize("the quick brown fox " * 50), range(100)))
    assert all(result == expected for result in results)


@pytest.mark.parametrize("pre", ["deepseek-llm", "gpt-4o", "default"])
def test_a_long_run_of_one_class_does_not_overflow_the_stack(tmp_path, monkeypatch, pre):
    original = GGUFWriter.add_tokenizer_pre
    monkeypatch.setattr(GGUFWriter, "add_tokenizer_pre", lambda writer, _: original(writer, pre))
    path = build_tiny_target(tmp_path / "long.gguf", kind="attention")
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from power_core.target import ModelSettings\n"
        "from power_native import NativeModel\n"
        "with NativeModel.open(ModelSettings(path=Path(sys.argv[1]))) as model:\n"
        "    for text in ('a' * 60_000, '1' * 60_000, '!' * 60_000):\n"
        "        tokens = model.vocabulary.tokenize(text)\n"
        "        assert b''.join(map(model.vocabulary.token_bytes, tokens)).decode() == text\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
