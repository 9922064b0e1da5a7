"""Admitted drafts that lie beside a target, found by their manifests."""

from __future__ import annotations

from pathlib import Path

import attrs

from power_core.admission.manifest import SUFFIX
from power_core.admission.verify import Admission, RoleProgress, measure_file, read_admission
from power_core.artifacts.model_files import ModelFiles
from power_core.errors import ArtifactNotFoundError, ConfigError


@attrs.frozen(kw_only=True)
class Search:
    """What lies beside a target.

    Attributes:
        admission: The one admission that was made for it, None without one.
        passed_over: What was found instead, one sentence: drafts that were admitted for other targets. Empty when there
            is none, or an admission was found.
    """

    admission: Admission | None
    passed_over: str = ""


def find_admission(target: ModelFiles, kind: str | None = None, progress: RoleProgress | None = None) -> Search:
    """Look for the admission in the target's folder that was made for this target.

    The target is hashed where a manifest names its size, and is the one that the returned manifest names. Every
    manifest has to be whole: a damaged one may be the one that was meant, so it ends the search instead of being
    skipped.

    Args:
        target: The scanned target.
        kind: Consider drafts of this kind alone.
        progress: See ``RoleProgress``.

    Raises:
        ArtifactError: a manifest in the folder is damaged; see ``read_manifest``. The target cannot be read.
        ConfigError: several drafts are admitted.
    """
    admissions = [each for each in map(read_admission, _manifests(target.path.parent)) if kind in (None, each.kind)]
    sized = [each for each in admissions if each.manifest.target.size_bytes == target.size_bytes]
    sha256 = measure_file("target", target, progress).sha256 if sized else ""
    fitting = [each for each in sized if each.manifest.target.sha256 == sha256]
    if len(fitting) > 1:
        listed = ", ".join(f"{admission.draft_path} ({admission.kind})" for admission in fitting)
        raise ConfigError(
            f"{len(fitting)} drafts are admitted for {target.path}: {listed}",
            field="draft",
            allowed=listed,
            hint="name one of them with --draft FILE",
        )
    if fitting:
        return Search(admission=fitting[0])
    return Search(admission=None, passed_over=_passed_over(admissions, target, sha256))


def _passed_over(admissions: list[Admission], target: ModelFiles, sha256: str) -> str:
    if not admissions:
        return ""
    listed = ", ".join(
        f"{each.manifest.draft.file} for one of {each.manifest.target.size_bytes} bytes with SHA-256 "
        f"{each.manifest.target.sha256}"
        for each in admissions
    )
    measured = f" and SHA-256 {sha256}" if sha256 else ""
    return f"admitted for other targets: {listed}; {target.path.name} has {target.size_bytes} bytes{measured}"


def _manifests(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except OSError as error:
        raise ArtifactNotFoundError(
            f"the target's folder {folder} cannot be searched for admitted drafts: {error.strerror}",
            path=str(folder),
            check_id="admission.folder",
            expected="a folder that can be listed",
            hint="make the folder readable, or name the strategy with --spec and the draft with --draft",
        ) from error
