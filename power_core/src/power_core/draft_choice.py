"""Which external draft a session reads, and what vouches for it.

A draft that the user names is checked and hashed; where a manifest lies beside it, the manifest has to hold. Without
a name, ``auto`` and the strategies that read drafts look for an admitted one beside the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs

from power_core.admission import Admission, admission_of, find_admission
from power_core.admission.admit import check_pair
from power_core.admission.verify import verify_digests, verify_facts, verify_names_and_sizes
from power_core.artifacts.model_files import ModelFiles, scan_model
from power_core.errors import ArtifactError, UnsupportedStrategyError
from power_core.plugins.manager import PowerPluginManager
from power_core.report import DraftRecord
from power_core.settings import SessionSettings
from power_core.strategies import AUTO

HashProgress: TypeAlias = Callable[[int, int], None]


@attrs.frozen(kw_only=True)
class DraftChoice:
    """A draft whose header is checked; its bytes are not measured yet.

    Attributes:
        files: The scanned draft.
        kind: Strategy that reads it.
        admission: What vouches for it, None without a manifest.
        found: It was found beside the target; the user did not name it.
    """

    files: ModelFiles
    kind: str
    admission: Admission | None
    found: bool

    @property
    def reason(self) -> str:
        """Why this draft is used, for the event ``auto``."""
        if self.found:
            return f"{self.files.path.name} beside the target is admitted for it, as {self.kind}"
        return f"the draft {self.files.path.name} was given, its kind is {self.kind}"


def choose_draft(settings: SessionSettings, target: ModelFiles, plugins: PowerPluginManager) -> DraftChoice | None:
    """Return the draft to use, checked as far as headers and sizes tell, or None.

    Raises:
        ArtifactError: the draft is absent, broken, of no known kind or not for this target; a manifest is damaged or
            does not hold.
        ConfigError: unknown strategy; several admitted drafts to choose from.
    """
    kind = plugins.draft_kind(settings.spec)
    if settings.draft is not None:
        return _check(settings.draft, admission_of(settings.draft), target, plugins, found=False)
    if kind is None:
        return None
    admission = find_admission(target, None if kind == AUTO else kind)
    if admission is None:
        return None
    with explain_found(admission):
        return _check(admission.draft_path, admission, target, plugins, found=True)


def measure_draft(choice: DraftChoice, target: ModelFiles, progress: HashProgress | None = None) -> DraftRecord:
    """Hash the draft, and with a manifest the target too, and return the record for the report.

    Raises:
        ArtifactError: a file is not the one that was admitted, or changed since it was scanned.
    """
    path, admission = choice.files.path, choice.admission
    if admission is None:
        return DraftRecord(file=path.name, kind=choice.kind, sha256=choice.files.measure(progress).sha256)
    with explain_found(admission if choice.found else None):
        verify_digests(
            admission,
            target=target,
            draft=choice.files,
            progress=None if progress is None else lambda role, done, total: progress(done, total),
        )
    manifest = admission.manifest
    return DraftRecord(
        file=path.name,
        kind=choice.kind,
        sha256=manifest.draft.sha256,
        admitted=True,
        source=manifest.source,
        revision=manifest.revision,
        license=manifest.license,
    )


@contextmanager
def explain_found(admission: Admission | None) -> Iterator[None]:
    """Add to an error of the block that the draft was found through a manifest, since the user named none."""
    try:
        yield
    except (ArtifactError, UnsupportedStrategyError) as error:
        if admission is not None:
            found = f"the draft was found through {admission.path}: remove that file, or name a strategy with --spec"
            error.hint = f"{error.hint}; {found}" if error.hint else found
        raise


def _check(
    path: Path, admission: Admission | None, target: ModelFiles, plugins: PowerPluginManager, *, found: bool
) -> DraftChoice:
    if admission is not None:
        verify_names_and_sizes(admission, target)
    files = scan_model(path)
    kind = check_pair(target, files, plugins.validators())
    if admission is not None:
        verify_facts(admission, target=target, draft=files, kind=kind)
    return DraftChoice(files=files, kind=kind, admission=admission, found=found)
