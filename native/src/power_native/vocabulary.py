"""The model's tokenizer, as the library implements it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NoReturn

from power_core.errors import ConfigError
from power_core.tokens import TokenId

if TYPE_CHECKING:
    from power_native.model import NativeModel


class NativeVocabulary:
    """Text to tokens and back (``power_core.target.Vocabulary``). What a token means is asked once and kept."""

    def __init__(self, model: NativeModel, n_vocab: int) -> None:
        self._model = model
        self._n_vocab = n_vocab
        self._plain: list[bytes | None] = [None] * n_vocab
        self._special: list[bytes | None] = [None] * n_vocab
        self._ends: frozenset[TokenId] | None = None

    def __len__(self) -> int:
        return self._n_vocab

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[TokenId]:
        """Return the tokens of ``text``.

        Args:
            text: Any text; lone surrogates are refused, since they have no UTF-8 form.
            add_special: Add the model's begin token where the model asks for it.
            parse_special: Read control tokens written in the text as tokens.
        """
        try:
            encoded = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ConfigError(f"the text cannot be encoded: {error}", field="text", value=text) from error
        capacity = len(encoded) + 8
        count = ctypes.c_uint32()
        while True:
            tokens = (ctypes.c_int32 * capacity)()
            self._model._call(
                "power_tokenize",
                encoded,
                len(encoded),
                add_special,
                parse_special,
                tokens,
                capacity,
                ctypes.byref(count),
            )
            if count.value <= capacity:
                return tokens[: count.value]
            capacity = count.value

    def token_bytes(self, token: TokenId, *, special: bool = False) -> bytes:
        """The bytes a token adds to the text; control tokens add nothing unless ``special``."""
        if not 0 <= token < self._n_vocab:
            self._refuse_token(token)
        known = self._special if special else self._plain
        found = known[token]
        if found is None:
            found = known[token] = self._ask_bytes(token, special)
        return found

    def is_end(self, token: TokenId) -> bool:
        """True for tokens that end generation; the whole vocabulary is asked once."""
        if self._ends is None:
            self._ends = self._model._end_tokens()
        return token in self._ends

    def _ask_bytes(self, token: TokenId, special: bool) -> bytes:
        capacity, length = 64, ctypes.c_uint32()
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            self._model._call("power_token_bytes", token, special, buffer, capacity, ctypes.byref(length))
            if length.value <= capacity:
                return buffer.raw[: length.value]
            capacity = length.value

    def _refuse_token(self, token: TokenId) -> NoReturn:
        raise ConfigError(
            f"token {token!r} is not in the vocabulary",
            field="token",
            value=token,
            allowed=f"0..{self._n_vocab - 1}",
        )
