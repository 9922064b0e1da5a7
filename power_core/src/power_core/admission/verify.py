"""What a manifest says, against what the files are; the same rules for a session that opens and for ``power inspect``.

Cheap rules come first: names and sizes without reading, then what headers say, then digests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import attrs

from power_core.admission.manifest import SUFFIX, Manifest, manifest_path
from power_core.admission.manifest_file import read_manifest
from power_core.artifacts.gguf import regular_file_bytes
from power_core.artifacts.identity import ArtifactIdentity, HashProgress, hash_files, tokenizer_fingerprint
from power_core.artifacts.model_files import ModelFiles
from power_core.artifacts.validation import CheckList, ValidationReport
from power_core.errors import (
    ArtifactContractError,
    ArtifactDigestMismatch,
    ArtifactError,
    ArtifactFormatError,
    ArtifactNotFoundError,
    ArtifactPairingError,
)

RoleProgress: TypeAlias = Callable[[str, int, int], None]
"""Called as ``progress("draft" or "target", done_bytes, total_bytes)``."""

RESTORE_HINT = "restore the file that was admitted, or admit this one with `power admit --force`"
TARGET_HINT = "use the target that the draft was admitted for, or admit it for this one with `power admit --force`"
NAME_HINT = f"a manifest is named like its draft, with {SUFFIX} behind it; rename it back, or admit the draft again"


@attrs.frozen(kw_only=True)
class Admission:
    """A manifest and where it lies."""

    path: Path
    manifest: Manifest

    @property
    def draft_path(self) -> Path:
        """The file that the manifest vouches for."""
        return self.path.with_name(self.manifest.draft.file)

    @property
    def kind(self) -> str:
        """Kind of the draft."""
        return self.manifest.kind


def read_admission(path: Path) -> Admission:
    """Read the manifest at ``path``; raises as ``read_manifest``."""
    return Admission(path=path, manifest=read_manifest(path))


def admission_of(draft_path: Path) -> Admission | None:
    """Return the admission beside a draft, None when no manifest lies there; raises as ``read_manifest``."""
    path = manifest_path(draft_path)
    return read_admission(path) if os.path.lexists(path) else None


def verify_names_and_sizes(admission: Admission, target: ModelFiles, progress: RoleProgress | None = None) -> None:
    """Check the manifest's own name, then the sizes of the draft and the target; a wrong file is read for its digest.

    Raises:
        ArtifactError: the first rule that does not hold; ``check_id`` starts with ``admission.``.
    """
    _raise_first(admission, [_name_rule(admission)])
    found_bytes = _draft_bytes(admission)
    if found_bytes != admission.manifest.draft.size_bytes:
        report = _report_for("draft", progress)
        _raise_first(
            admission,
            [_draft_size_rule(admission, found_bytes, hash_files([admission.draft_path], [found_bytes], report))],
        )
    if target.size_bytes != admission.manifest.target.size_bytes:
        _raise_first(admission, [_target_size_rule(admission, measure_file("target", target, progress))])


def verify_facts(admission: Admission, *, target: ModelFiles, draft: ModelFiles, kind: str) -> None:
    """Check what the headers say: kind, architectures, tokenizer. Raises as ``verify_names_and_sizes``."""
    _raise_first(admission, _fact_rules(admission.manifest, target, draft, kind))


def verify_draft_digest(admission: Admission, draft: ModelFiles, progress: RoleProgress | None = None) -> None:
    """Hash the draft again and compare. Raises as ``verify_names_and_sizes``."""
    found = measure_file("draft", draft, progress).sha256
    _raise_first(admission, [_draft_digest_rule(admission.manifest, found)])


def verify_target_digest(admission: Admission, target: ModelFiles, progress: RoleProgress | None = None) -> None:
    """Hash the target again and compare. Raises as ``verify_names_and_sizes``."""
    found = measure_file("target", target, progress).sha256
    _raise_first(admission, [_target_digest_rule(admission.manifest, found)])


def check_manifest(draft_path: Path, identity: ArtifactIdentity) -> tuple[Admission | None, ValidationReport | None]:
    """Check the manifest beside a measured draft as far as one can without the target; raises nothing.

    Returns:
        The admission and the report; no report without a manifest, no admission when it cannot be used.
    """
    checks = CheckList("admission")
    try:
        admission = admission_of(draft_path)
    except ArtifactError as error:
        checks.add_error(error.check_id.removeprefix("admission."), error, draft_path)
        return None, checks.report("admission", draft_path)
    if admission is None:
        return None, None
    draft = admission.manifest.draft
    checks.add("digest", True, "the manifest is as it was written")
    for rule in (
        _name_rule(admission),
        _draft_size_rule(admission, identity.size_bytes, identity.sha256),
        _draft_digest_rule(admission.manifest, identity.sha256),
        _equal("architecture", "the draft's architecture", draft.architecture, identity.architecture),
    ):
        checks.add(rule.name, rule.holds, rule.message, expected=rule.recorded, actual=rule.found)
    return admission, checks.report("admission", draft_path)


@attrs.frozen(kw_only=True)
class _Rule:
    name: str
    message: str
    recorded: object
    found: object
    error: type[ArtifactError] = ArtifactContractError
    hint: str = RESTORE_HINT

    @property
    def holds(self) -> bool:
        return self.recorded == self.found


def _raise_first(admission: Admission, rules: Iterable[_Rule]) -> None:
    for rule in rules:
        if not rule.holds:
            raise rule.error(
                f"{rule.message} (manifest {admission.path})",
                path=str(admission.draft_path),
                check_id=f"admission.{rule.name}",
                expected=rule.recorded,
                actual=rule.found,
                hint=rule.hint,
            )


def _equal(name: str, what: str, recorded: object, found: object) -> _Rule:
    return _Rule(name=name, message=f"{what} is {found!r}, admitted was {recorded!r}", recorded=recorded, found=found)


def _name_rule(admission: Admission) -> _Rule:
    expected = admission.path.name.removesuffix(SUFFIX)
    return _Rule(
        name="file_name",
        message=f"the manifest {admission.path.name} is for a draft named {admission.manifest.draft.file!r}",
        recorded=admission.manifest.draft.file,
        found=expected,
        error=ArtifactFormatError,
        hint=NAME_HINT,
    )


def _draft_bytes(admission: Admission) -> int:
    try:
        return regular_file_bytes(admission.draft_path)
    except ArtifactNotFoundError as error:
        error.check_id = "admission.draft_missing"
        raise


def _draft_size_rule(admission: Admission, found_bytes: int, sha256: str) -> _Rule:
    recorded = admission.manifest.draft
    return _Rule(
        name="draft_size",
        message=f"the draft {admission.draft_path} has {found_bytes} bytes with SHA-256 {sha256}, admitted were "
        f"{recorded.size_bytes} with {recorded.sha256}",
        recorded=recorded.size_bytes,
        found=found_bytes,
        error=ArtifactDigestMismatch,
    )


def _target_size_rule(admission: Admission, found: ArtifactIdentity) -> _Rule:
    recorded = admission.manifest.target
    return _Rule(
        name="target_size",
        message=f"the target has {found.size_bytes} bytes with SHA-256 {found.sha256}, the draft "
        f"{admission.draft_path} was admitted for {recorded.size_bytes} with {recorded.sha256}",
        recorded=recorded.size_bytes,
        found=found.size_bytes,
        error=ArtifactPairingError,
        hint=TARGET_HINT,
    )


def _fact_rules(manifest: Manifest, target: ModelFiles, draft: ModelFiles, kind: str) -> Iterator[_Rule]:
    yield _equal("kind", f"the kind of {draft.path}", manifest.kind, kind)
    yield _equal("architecture", "the draft's architecture", manifest.draft.architecture, draft.header.architecture)
    yield _equal("architecture", "the target's architecture", manifest.target.architecture, target.header.architecture)
    recorded, found = manifest.tokenizer, target.header
    yield _equal("tokenizer", "the tokenizer's model", recorded.model, found.get("tokenizer.ggml.model"))
    yield _equal("tokenizer", "the number of tokens", recorded.tokens, count_tokens(target))
    yield _equal("tokenizer", "the tokenizer's fingerprint", recorded.fingerprint, tokenizer_fingerprint(found))


def _draft_digest_rule(manifest: Manifest, found: str) -> _Rule:
    recorded = manifest.draft.sha256
    return _Rule(
        name="draft_sha256",
        message=f"the draft {manifest.draft.file} has SHA-256 {found}, admitted was {recorded}",
        recorded=recorded,
        found=found,
        error=ArtifactDigestMismatch,
    )


def _target_digest_rule(manifest: Manifest, found: str) -> _Rule:
    recorded = manifest.target.sha256
    return _Rule(
        name="target_sha256",
        message=f"the target has SHA-256 {found}, the draft {manifest.draft.file} was admitted for {recorded}",
        recorded=recorded,
        found=found,
        error=ArtifactPairingError,
        hint=TARGET_HINT,
    )


def count_tokens(target: ModelFiles) -> int:
    """Return the number of tokens in a checked target's vocabulary."""
    return len(target.header.require_array("tokenizer.ggml.tokens"))


def measure_file(role: str, files: ModelFiles, progress: RoleProgress | None) -> ArtifactIdentity:
    """Hash one of the two models; see ``RoleProgress``."""
    return files.measure(_report_for(role, progress))


def _report_for(role: str, progress: RoleProgress | None) -> HashProgress | None:
    return None if progress is None else lambda done, total: progress(role, done, total)
