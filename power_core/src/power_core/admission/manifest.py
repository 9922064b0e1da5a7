"""The manifest of an admitted draft: what was measured, the target it is bound to, and where the draft came from.

A JSON file beside the draft, named ``<draft file name>.admission.json``; docs/admission.md documents its schema. It
names a file, never a path, so that a folder can be moved as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.admission import fields

SCHEMA = "power.admission.v1"
SUFFIX = ".admission.json"


@attrs.frozen(kw_only=True)
class DraftEntry:
    """The draft: its file's name, and the identity of the file."""

    file: str = attrs.field(validator=[fields.text, fields.file_name])
    size_bytes: int = attrs.field(validator=fields.positive)
    sha256: str = attrs.field(validator=fields.sha256)
    architecture: str = attrs.field(validator=fields.text)


@attrs.frozen(kw_only=True)
class TargetEntry:
    """The identity of the target, all shards together; no name, for a target may be renamed."""

    size_bytes: int = attrs.field(validator=fields.positive)
    sha256: str = attrs.field(validator=fields.sha256)
    architecture: str = attrs.field(validator=fields.text)


@attrs.frozen(kw_only=True)
class TokenizerEntry:
    """The target's tokenizer, which the draft shares: model, fingerprint, number of tokens."""

    model: str = attrs.field(validator=fields.text)
    fingerprint: str = attrs.field(validator=fields.sha256)
    tokens: int = attrs.field(validator=fields.positive)


@attrs.frozen(kw_only=True)
class Provenance:
    """What the user says about the draft's origin; kept and shown, never compared with anything.

    Attributes:
        source: Where the file was taken from, for instance a URL.
        revision: What never changes at the source: a commit, a release.
        license: SPDX identifier.
    """

    source: str = attrs.field(validator=fields.text)
    revision: str = attrs.field(validator=fields.text)
    license: str = attrs.field(validator=fields.text)


@attrs.frozen(kw_only=True)
class Manifest(Provenance):
    """One admission.

    Attributes:
        kind: Name of the strategy that reads the draft.
        draft: The admitted file.
        target: What the draft is bound to.
        tokenizer: What both have in common.
        admitted_at: UTC.
        power_core: Version that admitted it.
    """

    kind: str = attrs.field(validator=fields.kind)
    draft: DraftEntry
    target: TargetEntry
    tokenizer: TokenizerEntry
    admitted_at: str = attrs.field(validator=fields.utc_time)
    power_core: str = attrs.field(validator=fields.text)

    def to_dict(self) -> dict[str, Any]:
        """Return what the file holds, ``schema`` first and ``digest`` last."""
        values = {"schema": SCHEMA, **attrs.asdict(self)}
        return {**values, "digest": digest_of(values)}


def manifest_path(draft_path: Path) -> Path:
    """Return where the manifest of a draft lies: beside it, under its name and ``.admission.json``."""
    return draft_path.parent / f"{draft_path.name}{SUFFIX}"


def digest_of(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical form: JSON in ASCII, names sorted, no spaces, ``digest`` left out.

    It shows that a manifest was changed by accident or by hand. It is no signature: whoever can write the file can
    compute it anew.
    """
    rest = {name: value for name, value in values.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
