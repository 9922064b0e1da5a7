"""Files that mean harm or are badly broken, each used as target and, where it is no GGUF at all, as draft too.

Every one is refused before anything native is touched: the backend of these cases fails the test when it is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
from artifact_cases import ArtifactCase
from hostile_headers import BARE, FILES, GOOD, STRING, U8, array_pair
from hostile_shards import MODELS

from power_core.artifacts.byte_reader import MAX_ARRAY_ELEMENTS, MAX_STRING_BYTES
from power_core.artifacts.values import ValueType
from power_core.opening import open_session
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.plugins.types import BackendSpec
from power_core.testing.headers import GgufBytes, text
from power_core.testing.models import build_tiny_target

I8, I32, I64, U32, F32, BOOL = (
    *(ValueType.INT8, ValueType.INT32, ValueType.INT64, ValueType.UINT32),
    *(ValueType.FLOAT32, ValueType.BOOL),
)
TOKENS = len(("a", "b", "ab", "<end>"))
TERABYTE = 1 << 40

Writer = Callable[[Path], Path]


@attrs.frozen
class HostileFile:
    """A file that ``write`` makes in an empty folder, and the error that refuses it."""

    name: str
    fault: str
    write: Writer
    code: str
    check_id: str = ""

    def case(self, use: str) -> ArtifactCase:
        """Return the case of opening it as ``target`` or as ``draft``."""
        attempt = _open_target if use == "target" else _open_draft
        return ArtifactCase(
            name=self.name if use == "target" else f"{self.name}-as-draft",
            fault=self.fault,
            attempt=lambda folder: attempt(folder, self.write),
            code=self.code,
            check_id=self.check_id,
        )


def _open_target(folder: Path, write: Writer) -> object:
    return open_session(model=write(folder), plugins=UNTOUCHED)


def _open_draft(folder: Path, write: Writer) -> object:
    target = folder / "target.gguf"
    target.write_bytes(GOOD.build())
    return open_session(model=target, draft=write(folder), plugins=UNTOUCHED)


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("the native library was asked to open a hostile file")


UNTOUCHED = PowerPluginManager(
    [
        LoadedPlugin(
            name="untouched",
            distribution="untouched",
            version="1",
            status="loaded",
            api=(1, 0),
            backends=("llama.cpp",),
            backend_specs=(BackendSpec(name="llama.cpp", open_model=_refuse),),
        )
    ]
)


def _written(content: bytes | GgufBytes, *, sparse_bytes: int = 0) -> Writer:
    """Write the bytes; ``sparse_bytes`` extends the file to that size with zeros that take no room."""

    def write(folder: Path) -> Path:
        path = folder / "model.gguf"
        path.write_bytes(content if isinstance(content, bytes) else content.build())
        if sparse_bytes:
            os.truncate(path, sparse_bytes)
        return path

    return write


def _pipe(folder: Path) -> Path:
    path = folder / "pipe"
    os.mkfifo(path)
    return path


def _link(folder: Path) -> Path:
    path = folder / "link.gguf"
    path.symlink_to("/dev/zero")
    return path


def _loop(folder: Path) -> Path:
    path = folder / "loop.gguf"
    path.symlink_to(path)
    return path


def _many_numbers(folder: Path) -> Path:
    body = bytes(MAX_ARRAY_ELEMENTS)
    pairs = tuple(array_pair(f"k{index}", U8, MAX_ARRAY_ELEMENTS, body).pairs[0] for index in range(6))
    return _written(GgufBytes(pairs=pairs))(folder)


def _many_texts(folder: Path) -> Path:
    value = b"a" * (MAX_STRING_BYTES - 4) + "\N{GRINNING FACE}".encode()
    pairs = tuple(BARE.with_value(f"k{index}", STRING, value).pairs[0] for index in range(12))
    return _written(GgufBytes(pairs=pairs))(folder)


def _long_strings(folder: Path) -> Path:
    return _written(array_pair("k", STRING, 25, text(b"a" * MAX_STRING_BYTES) * 25))(folder)


PATHS = (
    HostileFile("absent", "no file", lambda folder: folder / "absent.gguf", "artifact.not_found"),
    HostileFile("directory", "a directory", lambda folder: folder, "artifact.not_found"),
    HostileFile("pipe", "a named pipe, which never answers", _pipe, "artifact.not_found"),
    HostileFile("endless", "a link to an endless device", _link, "artifact.not_found"),
    HostileFile("link-to-itself", "a link to itself", _loop, "artifact.not_found"),
    HostileFile("name-too-long", "a name that is too long", lambda folder: folder / ("x" * 300), "artifact.not_found"),
)

LARGE = (
    HostileFile(
        "terabyte-of-zeros", "1 TiB of zeros", _written(b"", sparse_bytes=TERABYTE), "artifact.format", "gguf.magic"
    ),
    HostileFile(
        "terabyte-of-pairs",
        "65,536 metadata pairs of zeros in 1 TiB",
        _written(attrs.evolve(BARE, pair_count=65_536), sparse_bytes=TERABYTE),
        *("artifact.format", "gguf.key_empty"),
    ),
    HostileFile(
        "terabyte-of-tensors",
        "65,536 tensors of zeros in 1 TiB",
        _written(attrs.evolve(BARE, tensor_count=65_536), sparse_bytes=TERABYTE),
        *("artifact.format", "gguf.tensor_name"),
    ),
    HostileFile(
        "terabyte-of-numbers",
        "the largest array in 1 TiB of zeros, and another one",
        _written(
            attrs.evolve(BARE, pair_count=2, pairs=(array_pair("k", ValueType.UINT64, MAX_ARRAY_ELEMENTS).pairs[0],)),
            sparse_bytes=TERABYTE,
        ),
        *("artifact.format", "gguf.key_empty"),
    ),
    HostileFile(
        "terabyte-short",
        "a tensor of 4 TiB in a file of 1 TiB",
        _written(GOOD.with_tensor("t", (TERABYTE,)), sparse_bytes=TERABYTE),
        *("artifact.format", "gguf.truncated"),
    ),
    HostileFile(
        "many-numbers", "more numbers than any model has", _many_numbers, "artifact.format", "gguf.header_memory"
    ),
    HostileFile("many-texts", "more text than any model has", _many_texts, "artifact.format", "gguf.header_memory"),
    HostileFile("long-strings", "25 MiB of strings", _long_strings, "artifact.format", "gguf.header_bytes"),
)


def _key(name: str, value_type: ValueType, value: Any, check: str, fault: str) -> HostileFile:
    """A good target with one key, the tokenizer's unless it has dots, replaced."""
    key = name if "." in name else f"tokenizer.ggml.{name}"
    base = GOOD.without(key)
    add = base.with_array if isinstance(value, list) else base.with_value
    return HostileFile(
        re.sub(r"[^a-z0-9]+", "-", f"{name} {fault}".lower()),
        f"{key}: {fault}",
        _written(add(key, value_type, value)),
        "artifact.contract",
        f"target.{check}",
    )


def _typed(name: str, check: str, kinds: Sequence[tuple[ValueType, list[Any]]]) -> tuple[HostileFile, ...]:
    return tuple(_key(name, kind, values, check, f"array of {kind.name}") for kind, values in kinds)


def _renamed_tensor(old: bytes, new: bytes) -> Writer:
    """A tiny hybrid target, one of whose tensors has another name of the same length."""

    def write(folder: Path) -> Path:
        path = build_tiny_target(folder / "model.gguf", kind="hybrid", hidden=128, dtype="Q8_0")
        path.write_bytes(path.read_bytes().replace(old, new))
        return path

    return write


FOUND_BY_FUZZ = (
    *(
        HostileFile(
            f"recurrent-block-without-{name.replace('_', '-')}",
            f"a recurrent block without {name}, which the library loads and cannot compute",
            _renamed_tensor(f"blk.1.{name}.".encode(), f"blk.1.x{name[1:]}.".encode()),
            *("artifact.contract", "target.recurrent_inputs"),
        )
        for name in ("attn_qkv", "attn_gate")
    ),
    HostileFile(
        "mtp-without-first-norm",
        "without its first norm, the library loads a model with MTP blocks whatever else is missing",
        _renamed_tensor(b"blk.0.attn_norm.", b"blk.0.xttn_norm."),
        *("artifact.contract", "target.trunk"),
    ),
)

TOKENIZERS = (
    *_typed("tokens", "tokenizer_tokens", [(I32, [1, 2, 3, 4]), (U8, [1, 2, 3, 4])]),
    _key("tokens", STRING, "abcd", "tokenizer_tokens", "no array"),
    _key("tokens", STRING, [], "tokenizer_tokens", "no token"),
    _key("tokens", STRING, ["a", "b", "a", "c"], "tokenizer_tokens", "a token twice"),
    _key("tokens", STRING, ["a", "b", "a\0c", "c"], "tokenizer_tokens", "a token twice up to NUL"),
    _key("tokens", STRING, ["a", "", "[EMPTY_1]", "c"], "tokenizer_tokens", "a token like the name of an empty one"),
    *_typed("token_type", "tokenizer_token_type", [(kind, [1] * TOKENS) for kind in (I8, I64, U32, U8)]),
    _key("token_type", I32, [1] * (TOKENS - 1), "tokenizer_token_type", "one too few"),
    *_typed("scores", "tokenizer_scores", [(U8, [0] * TOKENS), (ValueType.FLOAT64, [0.0] * TOKENS)]),
    _key("scores", F32, [0.0] * (TOKENS - 1), "tokenizer_scores", "one too few"),
    _key("scores", F32, 0.0, "tokenizer_scores", "no array"),
    *_typed("merges", "tokenizer_merges", [(U32, [1])]),
    _key("merges", STRING, ["a b", "ab"], "tokenizer_merges", "without separator"),
    _key("merges", STRING, ["a b", " ab"], "tokenizer_merges", "without first part"),
    _key("merges", STRING, ["a b", "a\0 b"], "tokenizer_merges", "without separator before NUL"),
    _key("general.name", U32, 1, "fixed_types", "no text"),
    _key("general.file_type", ValueType.UINT16, 1, "fixed_types", "UINT16"),
    _key("tokenizer.chat_template", STRING, ["a"], "fixed_types", "array of STRING"),
    _key("pre", U8, 1, "fixed_types", "no text"),
    _key("suppress_tokens", U8, [1], "fixed_types", "array of UINT8"),
    _key("add_space_prefix", U32, 1, "fixed_types", "no boolean"),
    _key("model", U32, 1, "tokenizer_model", "no text"),
    _key("model", STRING, "unigram", "tokenizer_known", "unknown"),
    _key("eos_token_id", U32, TOKENS, "eos_token_id", "outside the vocabulary"),
    _key("eos_token_id", U32, 2**32 - 1, "eos_token_id", "2p32 minus 1"),
    _key("eos_token_id", I32, -1, "eos_token_id", "negative"),
    _key("mask_token_id", U32, TOKENS, "mask_token_id", "outside the vocabulary"),
    _key("add_bos_token", BOOL, True, "bos_token_inserted", "asks for a token without id"),
    _key("add_bos_token", U32, 1, "bos_token_inserted", "no boolean"),
)

FORMAT_FILES = (
    *PATHS,
    *LARGE,
    *(
        HostileFile(item.name, item.fault, _written(item.build()), "artifact.format", f"gguf.{item.check}")
        for item in FILES
    ),
)
SHARDS = tuple(HostileFile(model.name, model.fault, model.write, model.code, model.check) for model in MODELS)
TARGET_FILES = (*FORMAT_FILES, *SHARDS, *TOKENIZERS, *FOUND_BY_FUZZ)

CASES: tuple[ArtifactCase, ...] = (
    *(file.case("target") for file in TARGET_FILES),
    *(file.case("draft") for file in FORMAT_FILES),
)
