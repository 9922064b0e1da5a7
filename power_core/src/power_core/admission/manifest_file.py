"""Manifests on disk: read strictly, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import cattrs
from cattrs.errors import ForbiddenExtraKeysError

from power_core.admission import fields
from power_core.admission.manifest import SCHEMA, Manifest, digest_of
from power_core.admission.strict_json import read_object
from power_core.errors import ArtifactContractError, ArtifactDigestMismatch, ArtifactFormatError, ConfigError
from power_core.json_text import json_text
from power_core.whole_file import whole_file

MAX_MANIFEST_BYTES = 1 << 18
AGAIN_HINT = "restore the manifest, or admit the draft again with `power admit --force`"


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check its schema and its digest; nothing is said yet about the files it names.

    Raises:
        ArtifactNotFoundError: the file cannot be read (``admission.unreadable``).
        ArtifactFormatError: no bounded, strict JSON (``admission.too_long``, ``admission.json``), or of another schema
            (``admission.schema``).
        ArtifactContractError: a field is missing, unknown or of another type or form (``admission.fields``).
        ArtifactDigestMismatch: a value was edited (``admission.digest``).
    """
    values = read_object(path, MAX_MANIFEST_BYTES)
    _require_schema(path, values)
    manifest = _structure(path, values)
    measured = digest_of(values)
    if values["digest"] != measured:
        raise ArtifactDigestMismatch(
            f"the admission manifest {path} was edited: its digest says {values['digest']}, its content has {measured}",
            path=str(path),
            check_id="admission.digest",
            expected=values["digest"],
            actual=measured,
            hint=AGAIN_HINT,
        )
    return manifest


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest; whatever happens, the old one or the new one lies at ``path``, never a part of one.

    Raises:
        ConfigError: the folder cannot be written.
    """
    data = json_text(manifest.to_dict(), indent=2).encode("ascii")
    try:
        with whole_file(path) as partial:
            _write_through(partial, data)
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from error


def unwritable(path: Path, reason: str) -> ConfigError:
    """Return the error of a manifest that cannot be written."""
    return ConfigError(
        f"the admission manifest {path} cannot be written: {reason}",
        field="draft",
        value=str(path),
        allowed="a draft in a folder that can be written",
        hint="put the draft into a folder of your own and admit it there",
    )


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _require_schema(path: Path, values: dict[str, Any]) -> None:
    found = values.get("schema")
    if found != SCHEMA:
        raise ArtifactFormatError(
            f"the admission manifest {path} has schema {fields.shown(found)}, expected {SCHEMA!r}",
            path=str(path),
            check_id="admission.schema",
            expected=SCHEMA,
            actual=fields.shown(found),
            hint="another version wrote it: use that version, or admit the draft again with `power admit --force`",
        )


@attrs.frozen(kw_only=True)
class _Document(Manifest):
    """A manifest with the two fields that only the file has."""

    schema: str
    digest: str = attrs.field(validator=fields.sha256)

    def manifest(self) -> Manifest:
        return Manifest(**{field.name: getattr(self, field.name) for field in attrs.fields(Manifest)})


def _structure(path: Path, values: dict[str, Any]) -> Manifest:
    try:
        return _CONVERTER.structure(values, _Document).manifest()
    except cattrs.BaseValidationError as error:
        problems = cattrs.transform_error(error, path="manifest", format_exception=_problem)
        raise ArtifactContractError(
            f"the admission manifest {path} breaks its schema {SCHEMA}: {'; '.join(problems)}",
            path=str(path),
            check_id="admission.fields",
            expected=SCHEMA,
            actual=problems,
            hint=AGAIN_HINT,
        ) from error


def _problem(error: BaseException, _: type | None) -> str:
    if isinstance(error, KeyError):
        return f"the field {error.args[0]!r} is missing"
    if isinstance(error, ForbiddenExtraKeysError):
        return f"unknown field {', '.join(fields.shown(name) for name in sorted(error.extra_fields))}"
    if isinstance(error, AttributeError):
        return "an object was expected"
    return str(error)


def _exactly(kind: type) -> Any:
    """Return a hook that takes values of one JSON type and converts nothing."""

    def take(value: Any, _: object) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{fields.shown(value)} is of type {type(value).__name__}, expected {kind.__name__}")
        return value

    return take


def _new_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in (int, str):
        converter.register_structure_hook(kind, _exactly(kind))
    return converter


_CONVERTER = _new_converter()
