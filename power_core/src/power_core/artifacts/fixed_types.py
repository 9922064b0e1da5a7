"""Keys of any architecture that the native library takes in one type only; another one makes it refuse the file.

Source: the loaders of llama.cpp at the pinned commit (``llama-model-loader.cpp``, ``llama-model.cpp``,
``llama-vocab.cpp``). Those that need more than their type are checked elsewhere.
"""

from __future__ import annotations

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.validation import CheckList

FIXED_TYPES = {
    "general.name": "STRING",
    "general.file_type": "UINT32",
    "tokenizer.chat_template": "STRING",
    "tokenizer.ggml.pre": "STRING",
    "tokenizer.ggml.token_type_count": "UINT32",
    "tokenizer.ggml.suppress_tokens": "array of INT32",
    "tokenizer.ggml.add_sep_token": "BOOL",
    "tokenizer.ggml.add_space_prefix": "BOOL",
    "tokenizer.ggml.remove_extra_whitespaces": "BOOL",
    "tokenizer.ggml.normalizer.lowercase": "BOOL",
    "tokenizer.ggml.normalizer.strip_accents": "BOOL",
    **{f"tokenizer.ggml.fim_{name}_token_id": "UINT32" for name in ("pre", "suf", "mid", "pad", "rep", "sep")},
}


def check_fixed_types(header: GgufHeader, checks: CheckList) -> None:
    """Add one check, which names the first key of a wrong type."""
    stored = {key: _stored(header, key) for key in FIXED_TYPES if key in header.metadata}
    wrong = next((key for key, found in stored.items() if found != FIXED_TYPES[key]), None)
    if wrong is None:
        checks.add("fixed_types", True, f"{len(stored)} keys are of the type that the library asks for")
        return
    checks.add(
        "fixed_types",
        False,
        f"the key {wrong!r} is stored as {stored[wrong]}, expected {FIXED_TYPES[wrong]}",
        expected=FIXED_TYPES[wrong],
        actual=stored[wrong],
    )


def _stored(header: GgufHeader, key: str) -> str:
    element = header.element_type(key)
    return header.value_type(key).name if element is None else f"array of {element.name}"
