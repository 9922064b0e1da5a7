"""Admitted drafts that lie beside a target, found by their manifests."""

from __future__ import annotations

from pathlib import Path

from power_core.admission.manifest import SUFFIX
from power_core.admission.verify import Admission, read_admission
from power_core.artifacts.model_files import ModelFiles
from power_core.errors import ArtifactNotFoundError, ConfigError


def find_admission(target: ModelFiles, kind: str | None = None) -> Admission | None:
    """Return the one admission in the target's folder that was made for a target of this size, None without one.

    Only manifests are read. Every one of them has to be whole: a damaged manifest may be the one that was meant, so it
    ends the search instead of being skipped.

    Args:
        target: The scanned target.
        kind: Consider drafts of this kind alone.

    Raises:
        ArtifactError: a manifest in the folder is damaged; see ``read_manifest``.
        ConfigError: several drafts are admitted.
    """
    candidates = [
        admission
        for admission in map(read_admission, _manifests(target.path.parent))
        if admission.manifest.target.size_bytes == target.size_bytes and kind in (None, admission.kind)
    ]
    if len(candidates) > 1:
        listed = ", ".join(f"{admission.draft_path} ({admission.kind})" for admission in candidates)
        raise ConfigError(
            f"{len(candidates)} drafts are admitted for a target like {target.path}: {listed}",
            field="draft",
            allowed=listed,
            hint="name one of them with --draft FILE",
        )
    return candidates[0] if candidates else None


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
