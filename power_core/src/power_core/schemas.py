"""The published JSON schemas of what the program writes: made from the classes themselves, so they never say less.

``power schema generate`` and ``power schema bench`` print them. Draft 2020-12.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

import attrs

from power_core.bench.records import BenchReport
from power_core.logprobs import TokenLogprobs
from power_core.report import DERIVED, GenerationResult, Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PLAIN: Mapping[object, dict[str, Any]] = {
    Any: {},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
}
_WHOLE_NUMBER = "^-?[0-9]+$"


@attrs.frozen(kw_only=True)
class LikelyToken:
    """One of the likeliest tokens, as JSON has it."""

    token: int
    logprob: float


_WRITTEN: Mapping[tuple[type, str], Any] = {
    (GenerationResult, "logprobs"): tuple[TokenLogprobs, ...],
    (TokenLogprobs, "top"): tuple[LikelyToken, ...],
}
"""Types of what is written in another form than the field has."""
_OPTIONAL = ((GenerationResult, "logprobs"),)
"""What is written only when it was asked for."""


def generate_schema() -> dict[str, Any]:
    """Return the schema of the object that ``power generate --json`` prints."""
    return _document("What power generate --json prints", GenerationResult)


def bench_schema() -> dict[str, Any]:
    """Return the schema of the file that ``power bench --json`` writes."""
    return _document("What power bench --json writes", BenchReport)


def _document(title: str, record: type[attrs.AttrsInstance]) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    root = _of(record, definitions)
    return {"$schema": DIALECT, "title": title, **root, "$defs": definitions}


def _of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; records go to the definitions, by their name."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if attrs.has(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a record that holds itself finds this
            definitions[kind.__name__] = _record(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(each, definitions) for each in arguments]}
    return _container(kind, origin, arguments, definitions)


def _container(kind: Any, origin: Any, arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if origin in (dict, Mapping):
        keys = {"propertyNames": {"pattern": _WHOLE_NUMBER}} if arguments[0] is int else {}
        return {"type": "object", **keys, "additionalProperties": _of(arguments[1], definitions)}
    if origin in (list, Sequence) or (origin is tuple and arguments[1:] == (...,)):
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is tuple:
        items = [_of(each, definitions) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    raise TypeError(f"{kind!r} has no JSON schema here")


def _record(record: type[attrs.AttrsInstance], definitions: dict[str, Any]) -> dict[str, Any]:
    described = _descriptions(record)
    hints = typing.get_type_hints(record)
    kinds = {field.name: _WRITTEN.get((record, field.name), hints[field.name]) for field in attrs.fields(record)}
    if record is Report:
        kinds |= {name: typing.get_type_hints(getattr(record, name).fget)["return"] for name in DERIVED}
        described |= {name: _first_line(getattr(record, name)) for name in DERIVED}
    properties = {
        name: _of(kind, definitions) | ({"description": described[name]} if name in described else {})
        for name, kind in kinds.items()
    }
    return {
        "type": "object",
        "description": _first_line(record),
        "properties": properties,
        "required": [name for name in properties if (record, name) not in _OPTIONAL],
        "additionalProperties": False,
    }


def _first_line(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _descriptions(record: type) -> dict[str, str]:
    """Return what the docstring of a class says about its attributes, by name."""
    section = (inspect.getdoc(record) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in zip(entries[1::2], entries[2::2], strict=True)}
