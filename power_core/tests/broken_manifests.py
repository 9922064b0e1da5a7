"""Manifests that have to be refused: edited, of another schema, damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from admission_files import Pair, opened, resize
from artifact_cases import ArtifactCase

Values = dict[str, Any]
DIGEST, PAIRING, CONTRACT, FORMAT = "artifact.digest", "artifact.pairing", "artifact.contract", "artifact.format"
OTHER_DIGEST = "0" * 64


def _text(content: str | bytes) -> Callable[[Path], object]:
    """Put something else in the manifest's place."""
    data = content.encode() if isinstance(content, str) else content
    return opened(lambda pair: pair.manifest.write_bytes(data))


def _edited(change: Callable[[Values], object], *, sign: bool = False) -> Callable[[Path], object]:
    return opened(lambda pair: pair.edit(change, sign=sign))


def _set(place: str, value: Any, *, sign: bool = False) -> Callable[[Path], object]:
    def change(values: Values) -> None:
        *outer, name = place.split(".")
        for part in outer:
            values = values[part]
        values[name] = value

    return _edited(change, sign=sign)


def _drop(place: str) -> Callable[[Path], object]:
    def change(values: Values) -> None:
        *outer, name = place.split(".")
        for part in outer:
            values = values[part]
        del values[name]

    return _edited(change)


EDITS: Values = {
    "kind": "dspark",
    "draft.file": "other.gguf",
    "draft.size_bytes": 1,
    "draft.sha256": OTHER_DIGEST,
    "draft.architecture": "other",
    "target.size_bytes": 1,
    "target.sha256": OTHER_DIGEST,
    "target.architecture": "other",
    "tokenizer.model": "llama",
    "tokenizer.fingerprint": OTHER_DIGEST,
    "tokenizer.tokens": 5,
    "source": "https://example.org/other",
    "revision": "other",
    "license": "MIT",
    "admitted_at": "2020-01-01T00:00:00Z",
    "power_core": "9.9.9",
    "digest": OTHER_DIGEST,
}
SIGNED = {
    "kind": (CONTRACT, "kind"),
    "draft.file": (FORMAT, "file_name"),
    "draft.size_bytes": (DIGEST, "draft_size"),
    "draft.sha256": (DIGEST, "draft_sha256"),
    "draft.architecture": (CONTRACT, "architecture"),
    "target.size_bytes": (PAIRING, "target_size"),
    "target.sha256": (PAIRING, "target_sha256"),
    "target.architecture": (CONTRACT, "architecture"),
    "tokenizer.model": (CONTRACT, "tokenizer"),
    "tokenizer.fingerprint": (CONTRACT, "tokenizer"),
    "tokenizer.tokens": (CONTRACT, "tokenizer"),
}


def _edited_manifests() -> Iterator[ArtifactCase]:
    for place, value in EDITS.items():
        yield ArtifactCase(
            name=f"edited-{place.replace('.', '-').replace('_', '-')}",
            fault=f"`{place}` of the manifest was edited",
            attempt=_set(place, value),
            code=DIGEST,
            check_id="admission.digest",
        )
    for place, (code, rule) in SIGNED.items():
        yield ArtifactCase(
            name=f"forged-{place.replace('.', '-').replace('_', '-')}",
            fault=f"`{place}` of the manifest was edited and its digest computed anew",
            attempt=_set(place, EDITS[place], sign=True),
            code=code,
            check_id=f"admission.{rule}",
        )


def _broken_schema() -> Iterator[ArtifactCase]:
    for name, schema in (("newer", "power.admission.v2"), ("none", None), ("number", 1)):
        yield ArtifactCase(
            name=f"schema-{name}",
            fault=f"the manifest's schema is {json.dumps(schema)}",
            attempt=_set("schema", schema),
            code=FORMAT,
            check_id="admission.schema",
        )
    attempts: dict[str, tuple[str, Callable[[Path], object]]] = {
        f"field-missing-{place.replace('.', '-').replace('_', '-')}": (f"`{place}` is missing", _drop(place))
        for place in (*EDITS, "draft", "target", "tokenizer")
    }
    attempts |= {
        "field-unknown": ("an unknown field", _set("comment", "hello")),
        "field-unknown-inside": ("an unknown field in `draft`", _set("draft.path", "/models/draft.gguf")),
        "size-text": ("a size written as text", _set("draft.size_bytes", "704")),
        "size-true": ("a size that is `true`", _set("draft.size_bytes", True)),
        "size-float": ("a size that is no whole number", _set("draft.size_bytes", 704.0)),
        "size-zero": ("a size of 0", _set("target.size_bytes", 0)),
        "size-negative": ("a negative size", _set("target.size_bytes", -1)),
        "size-beyond": ("a size beyond 64 bits", _set("target.size_bytes", 2**64)),
        "digest-short": ("a digest of 63 digits", _set("draft.sha256", "0" * 63)),
        "digest-upper": ("a digest in capital letters", _set("draft.sha256", "A" * 64)),
        "digest-null": ("`digest` is null", _set("digest", None)),
        "draft-null": ("`draft` is null", _set("draft", None)),
        "draft-list": ("`draft` is a list", _set("draft", [])),
        "draft-text": ("`draft` is a text", _set("draft", "draft.gguf")),
        "kind-list": ("`kind` is a list", _set("kind", ["dflash"])),
        "kind-form": ("`kind` is no name", _set("kind", "DFlash 2")),
        "file-folder": ("`draft.file` has a folder", _set("draft.file", "../draft.gguf")),
        "file-dots": ("`draft.file` is `..`", _set("draft.file", "..")),
        "source-empty": ("`source` is empty", _set("source", "")),
        "source-control": ("`source` has a control character", _set("source", "a\x1b[2J")),
        "source-surrogate": ("`source` has half a character", _set("source", "a\ud800")),
        "source-long": ("`source` is too long", _set("source", "a" * 2001)),
        "time-form": ("`admitted_at` is no UTC time", _set("admitted_at", "2026-01-01 00:00")),
        "time-impossible": ("`admitted_at` is no date", _set("admitted_at", "2026-02-30T00:00:00Z")),
    }
    for name, (fault, attempt) in attempts.items():
        yield ArtifactCase(
            name=f"manifest-{name}", fault=fault, attempt=attempt, code=CONTRACT, check_id="admission.fields"
        )


def _broken_json() -> Iterator[ArtifactCase]:
    contents: dict[str, tuple[str, Callable[[Path], object]]] = {
        "empty": ("the manifest is empty", _text("")),
        "truncated": (
            "the manifest is cut off",
            opened(lambda pair: resize(pair.manifest, -40)),
        ),
        "trailing": (
            "something follows the manifest's object",
            opened(lambda pair: pair.manifest.write_bytes(pair.manifest.read_bytes() + b"{}")),
        ),
        "duplicate": (
            "a name occurs twice",
            opened(lambda pair: insert(pair, b'"kind": "dflash",')),
        ),
        "duplicate-inside": (
            "a name occurs twice in `draft`",
            opened(lambda pair: insert(pair, b'"file": "draft.gguf",', after=b'"draft": {')),
        ),
        "nan": ("a value is NaN", opened(lambda pair: insert(pair, b'"size": NaN,'))),
        "infinity": ("a value is -Infinity", opened(lambda pair: insert(pair, b'"size": -Infinity,'))),
        "deep": ("the manifest is nested 100,000 deep", _text("[" * 100_000)),
        "deep-object": ("objects nested 20,000 deep", _text('{"a":' * 20_000)),
        "list": ("the manifest is a list", _text("[]")),
        "null": ("the manifest is `null`", _text("null")),
        "utf-8": ("the manifest is no UTF-8", _text(b'{"schema": "\xff"}')),
        "utf-16": ("the manifest is UTF-16", _text("{}".encode("utf-16"))),
        "byte-order-mark": ("the manifest starts with a byte order mark", _text(b"\xef\xbb\xbf{}")),
        "digits": ("a number of 5,000 digits", _text('{"schema": ' + "9" * 5_000 + "}")),
        "binary": ("the manifest is a GGUF file", opened(lambda pair: shutil.copy(pair.draft, pair.manifest))),
    }
    for name, (fault, attempt) in contents.items():
        yield ArtifactCase(name=f"json-{name}", fault=fault, attempt=attempt, code=FORMAT, check_id="admission.json")
    yield ArtifactCase(
        name="json-huge",
        fault="the manifest has 8 GB",
        attempt=opened(lambda pair: os.truncate(pair.manifest, 8 << 30)),
        code=FORMAT,
        check_id="admission.too_long",
    )


def insert(pair: Pair, text: bytes, after: bytes = b"{") -> None:
    pair.manifest.write_bytes(pair.manifest.read_bytes().replace(after, after + text, 1))


MANIFEST_CASES: tuple[ArtifactCase, ...] = (*_edited_manifests(), *_broken_schema(), *_broken_json())
