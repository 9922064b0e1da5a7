"""TextStream: whole characters, stop strings withheld, nothing lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from power_core.testing.fakes import FakeVocabulary
from power_core.text import TextStream

BYTES = FakeVocabulary(257, 256)


@given(st.text(max_size=30))
def test_pieces_are_whole_characters_and_join_to_the_text(text):
    stream = TextStream(BYTES, ())
    pieces = [stream.push(token) for token in text.encode()]
    pieces.append(stream.finish())
    assert "".join(pieces) == stream.text == text


def test_bytes_that_never_become_a_character_are_shown_at_the_end():
    stream = TextStream(BYTES, ())
    assert stream.push(0xC3) == ""
    assert stream.finish() == "\ufffd"


def test_the_stop_string_is_not_part_of_the_text():
    stream = TextStream(BYTES, ("\n\n",))
    shown = [stream.push(token) for token in b"one\n\n"]
    assert "".join(shown) == "one"
    assert stream.stopped
    assert stream.finish() == ""


def test_a_preview_answers_without_moving_the_stream():
    stream = TextStream(BYTES, ("ab",))
    stream.push(ord("a"))
    preview = stream.preview()
    assert preview is not None
    assert preview.completes(ord("b"))
    assert not stream.stopped
    assert TextStream(BYTES, ()).preview() is None


def test_held_back_text_is_released_when_the_stop_does_not_come():
    stream = TextStream(BYTES, ("made it",))
    shown = "".join(stream.push(token) for token in b"they made their way")
    assert shown + stream.finish() == "they made their way"
