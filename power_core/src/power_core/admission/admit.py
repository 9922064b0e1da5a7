"""Admit a draft: check it with its target, measure both, write down what was found. Nothing is written on an error."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs

from power_core.admission import fields
from power_core.admission.manifest import (
    DraftEntry,
    Manifest,
    Provenance,
    TargetEntry,
    TokenizerEntry,
    manifest_path,
)
from power_core.admission.manifest_file import unwritable, write_manifest
from power_core.admission.verify import Admission, RoleProgress, admission_of, count_tokens, measure_file
from power_core.artifacts.drafts import check_draft
from power_core.artifacts.model_files import ModelFiles, scan_model
from power_core.artifacts.roles import require_target
from power_core.artifacts.validation import ArtifactValidator
from power_core.errors import ArtifactError, ArtifactPairingError, ConfigError

NOT_COMPARED = ("admitted_at", "power_core", "digest")


@attrs.frozen(kw_only=True)
class AdmitResult:
    """What was admitted; ``written`` is False when a manifest that says the same was there already."""

    admission: Admission
    written: bool


def admit_draft(
    target_path: Path,
    draft_path: Path,
    provenance: Provenance,
    validators: Iterable[ArtifactValidator],
    *,
    force: bool = False,
    progress: RoleProgress | None = None,
) -> AdmitResult:
    """Check both files, hash both, and write the manifest beside the draft.

    Args:
        target_path: The target; the first shard of a split one.
        draft_path: The draft.
        provenance: Where the draft came from.
        validators: Those of the installed plugins.
        force: Replace a manifest that says something else, or that is damaged.
        progress: See ``RoleProgress``.

    Raises:
        ArtifactError: a file is absent, broken, changes meanwhile, or does not go with the other.
        ConfigError: another manifest lies there, or the folder cannot be written.
    """
    target = scan_model(target_path)
    require_target(target.header)
    draft = scan_model(draft_path)
    kind = check_pair(target, draft, validators)
    path = manifest_path(draft.path)
    _require_writable(path)
    old = None if force else _existing(draft.path)
    _require_equal(path, old, attrs.asdict(provenance))
    manifest = _measure(target, draft, kind, provenance, progress)
    _require_equal(path, old, manifest.to_dict())
    if old is not None:
        return AdmitResult(admission=old, written=False)
    write_manifest(path, manifest)
    return AdmitResult(admission=Admission(path=path, manifest=manifest), written=True)


def check_pair(target: ModelFiles, draft: ModelFiles, validators: Iterable[ArtifactValidator]) -> str:
    """Check a draft by itself and with its target, and return its kind; reads headers alone.

    Raises:
        ArtifactError: see ``power_core.artifacts.drafts.check_draft``; the draft is the target (``draft.same_file``).
    """
    if draft.shares_a_file_with(target):
        raise ArtifactPairingError(
            f"{draft.path} is the target itself, expected another file",
            path=str(draft.path),
            check_id="draft.same_file",
            expected="a draft in a file of its own",
            actual=str(target.path),
            hint="leave the draft out; prediction heads inside a target are used with --spec mtp",
        )
    return check_draft(target.header, draft.header, validators)


def _measure(
    target: ModelFiles, draft: ModelFiles, kind: str, provenance: Provenance, progress: RoleProgress | None
) -> Manifest:
    measured_draft = measure_file("draft", draft, progress)
    measured_target = measure_file("target", target, progress)
    draft.require_unchanged()
    try:
        return Manifest(
            kind=kind,
            draft=DraftEntry(
                file=draft.path.name,
                size_bytes=measured_draft.size_bytes,
                sha256=measured_draft.sha256,
                architecture=measured_draft.architecture,
            ),
            target=TargetEntry(
                size_bytes=measured_target.size_bytes,
                sha256=measured_target.sha256,
                architecture=measured_target.architecture,
            ),
            tokenizer=TokenizerEntry(
                model=target.header.require("tokenizer.ggml.model"),
                fingerprint=measured_target.tokenizer_fingerprint or "",
                tokens=count_tokens(target),
            ),
            admitted_at=datetime.now(UTC).strftime(fields.TIME_FORMAT),
            power_core=_own_version(),
            **attrs.asdict(provenance),
        )
    except ValueError as error:
        raise ConfigError(
            f"{draft.path} cannot be described in a manifest: {error}",
            field="draft",
            value=str(draft.path),
            hint="rename the file, or use a target that names itself plainly",
        ) from error


def _own_version() -> str:
    try:
        return version("power-core")
    except PackageNotFoundError:
        return "unknown"


def _existing(draft_path: Path) -> Admission | None:
    try:
        return admission_of(draft_path)
    except ArtifactError as error:
        error.hint = "look at the file; `power admit --force` replaces it"
        raise


def _require_writable(path: Path) -> None:
    if not os.access(path.parent, os.W_OK):
        raise unwritable(path, "its folder cannot be written")


def _require_equal(path: Path, old: Admission | None, values: dict[str, Any]) -> None:
    """Refuse to go on when an earlier manifest says anything else than ``values``."""
    if old is None:
        return
    recorded = old.manifest.to_dict()
    different = [name for name in values if name not in NOT_COMPARED and recorded[name] != values[name]]
    if different:
        changes = "; ".join(f"{name}: {recorded[name]!r}, now {values[name]!r}" for name in different)
        raise ConfigError(
            f"{path} exists and says something else: {changes}",
            field="force",
            value=False,
            hint="check which one is right; `power admit --force` replaces the manifest",
        )
