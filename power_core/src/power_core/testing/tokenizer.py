"""The tokenizer of the tiny models: a byte-level BPE of 512 tokens, learnt from a few lines of English and Python.

Every UTF-8 text tokenizes, since all 256 bytes are tokens; frequent pieces ("return", " the") are single tokens. The
tables are the same on every machine: ties between merges are broken by the pieces themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise

import attrs

VOCABULARY_TOKENS = 512
END_OF_TEXT = "<|endoftext|>"
CHAT_START = "<|im_start|>"
CHAT_END = "<|im_end|>"
MASK = "<|mask|>"
SPECIAL_TOKENS = (END_OF_TEXT, CHAT_START, CHAT_END, MASK)
TOKEN_TYPE_NORMAL = 1
TOKEN_TYPE_CONTROL = 3

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

CORPUS = """\
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)

class Counter:
    def __init__(self, start=0):
        self.value = start

    def next(self):
        self.value += 1
        return self.value

def read_lines(path):
    with open(path) as file:
        for line in file:
            yield line.strip()

def main():
    import sys
    for name in sys.argv[1:]:
        print(name, len(list(read_lines(name))))

if __name__ == "__main__":
    main()

The target decides and the drafter only proposes. When the draft is right, several tokens are taken from one pass; when
it is wrong, the first token that differs is replaced by the one that the target wanted. The text is always the text
that the target alone would have written. In the morning the river runs through the valley, and the people of the town
walk along the water to the market. There is nothing that cannot be said in a few words, but it takes time to find them.
Return the list of all the values that are not in the other list, and raise an error when the string is empty.
"""

_PIECES = re.compile(r"[^\r\n\w]?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


@attrs.frozen(kw_only=True)
class TinyTokenizer:
    """Tables as a GGUF stores them.

    Attributes:
        tokens: Token texts by id, in the byte-to-unicode alphabet of byte-level BPE.
        token_types: ``TOKEN_TYPE_NORMAL`` or ``TOKEN_TYPE_CONTROL`` by id.
        merges: Pairs in order of rank, separated by a space.
    """

    tokens: tuple[str, ...]
    token_types: tuple[int, ...]
    merges: tuple[str, ...]

    def id_of(self, text: str) -> int:
        """Return the id of a token text."""
        return self.tokens.index(text)


@cache
def byte_alphabet() -> tuple[str, ...]:
    """Return the printable character that stands for each byte 0..255 in byte-level BPE vocabularies."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    replacements = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(replacements)) for byte in range(256))


@cache
def tiny_tokenizer() -> TinyTokenizer:
    """Return the tokenizer that every tiny model carries."""
    alphabet = byte_alphabet()
    merges = _learn_merges(VOCABULARY_TOKENS - len(alphabet) - len(SPECIAL_TOKENS))
    learnt = tuple(left + right for left, right in merges)
    normal = len(alphabet) + len(learnt)
    return TinyTokenizer(
        tokens=(*alphabet, *learnt, *SPECIAL_TOKENS),
        token_types=(TOKEN_TYPE_NORMAL,) * normal + (TOKEN_TYPE_CONTROL,) * len(SPECIAL_TOKENS),
        merges=tuple(f"{left} {right}" for left, right in merges),
    )


def _learn_merges(count: int) -> list[tuple[str, str]]:
    alphabet = byte_alphabet()
    pieces = Counter(_PIECES.findall(CORPUS))
    words = [([alphabet[byte] for byte in piece.encode()], times) for piece, times in pieces.items()]
    known = set(alphabet)
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, times in words:
            for left, right in pairwise(symbols):
                pairs[left, right] += times
        best = min((pair for pair in pairs if "".join(pair) not in known), key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        known.add("".join(best))
        words = [(_merge(symbols, best), times) for symbols, times in words]
    return merges


def _merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged
