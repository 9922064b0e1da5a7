"""Which external draft a session reads, and what vouches for it.

A draft that the user names is checked and hashed; where a manifest lies beside it, the manifest has to hold. Without
a name, ``auto`` and the strategies that read drafts look for an admitted one beside the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import attrs

from power_core.admission import Admission, admission_of, find_admission
from power_core.admission.admit import check_pair
from power_core.admission.verify import (
    RoleProgress,
    measure_file,
    verify_draft_digest,
    verify_facts,
    verify_names_and_sizes,
    verify_target_digest,
)
from power_core.artifacts.model_files import ModelFiles, scan_model
from power_core.artifacts.roles import dflash_kinds
from power_core.errors import ArtifactContractError, ArtifactPairingError, PowerError
from power_core.plugins.manager import PowerPluginManager
from power_core.report import DraftRecord
from power_core.settings import SessionSettings
from power_core.strategies import AUTO


@attrs.frozen(kw_only=True)
class DraftChoice:
    """A draft whose header is checked; its bytes are not measured yet.

    Attributes:
        files: The scanned draft.
        kind: Strategy that reads it.
        admission: What vouches for it, None without a manifest.
        found: It was found beside the target, which is the one of its admission; the user did not name it.
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


def choose_draft(
    settings: SessionSettings,
    target: ModelFiles,
    plugins: PowerPluginManager,
    events: list[dict[str, Any]],
    progress: RoleProgress | None = None,
) -> DraftChoice | None:
    """Return the draft to use, checked as far as headers and sizes tell, or None.

    A search hashes the target where a manifest names its size; ``progress`` shows it. ``auto`` goes on without a draft
    when those beside the target were admitted for others, with an event that says so.

    Raises:
        ArtifactError: the draft is absent, broken, of no known kind or not for this target; a manifest is damaged or
            does not hold; the named strategy's drafts beside the target were admitted for others.
        ConfigError: unknown strategy; several admitted drafts to choose from.
        PluginError: the plugin that reads the draft failed, or was left out.
    """
    kind = plugins.draft_kind(settings.spec)
    if settings.draft is not None:
        return _check(settings.draft, admission_of(settings.draft), target, plugins, progress, found=False)
    if kind is None:
        return None
    search = find_admission(target, None if kind == AUTO else kind, progress)
    admission = search.admission
    if admission is None:
        if search.passed_over and kind != AUTO:
            raise _for_others(target, kind, search.passed_over)
        if search.passed_over:
            events.append({"event": "admission", "round": 0, "detail": f"drafts {search.passed_over}"})
        return None
    with _explained(admission.path):
        return _check(admission.draft_path, admission, target, plugins, progress, found=True)


def _for_others(target: ModelFiles, kind: str, passed_over: str) -> ArtifactPairingError:
    return ArtifactPairingError(
        f"no {kind} draft beside {target.path} is admitted for it; {passed_over}",
        path=str(target.path),
        check_id="admission.other_target",
        hint="use the target that the draft was admitted for, admit the draft for this one, or name it with --draft",
    )


@contextmanager
def blame_absent_plugin(draft_path: Path, plugins: PowerPluginManager) -> Iterator[None]:
    """Replace "no plugin reads this draft" by the reason why the one that would is not there, where it is installed."""
    try:
        yield
    except ArtifactContractError as error:
        if error.check_id == "draft.role" and error.actual == "dflash-family draft":
            for kind in dflash_kinds(scan_model(draft_path).header):
                if kind in plugins.unavailable:
                    raise plugins.unavailable[kind] from error
        raise


def measure_draft(choice: DraftChoice, target: ModelFiles, progress: RoleProgress | None = None) -> DraftRecord:
    """Hash the draft, and with a manifest the target too, and return the record for the report.

    Raises:
        ArtifactError: a file is not the one that was admitted, or changed since it was scanned.
    """
    path, admission = choice.files.path, choice.admission
    if admission is None:
        measured = measure_file("draft", choice.files, progress)
        return DraftRecord(file=path.name, kind=choice.kind, sha256=measured.sha256)
    verify_draft_digest(admission, choice.files, progress)
    if not choice.found:
        verify_target_digest(admission, target, progress)
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


def explain_found(choice: DraftChoice | None) -> AbstractContextManager[None]:
    """Add to an error of the block how the draft was found, where the user named none."""
    if choice is None or choice.admission is None or not choice.found:
        return nullcontext()
    return _explained(choice.admission.path)


@contextmanager
def _explained(manifest: Path) -> Iterator[None]:
    try:
        yield
    except PowerError as error:
        found = f"the draft was found through {manifest}: remove that file, or name a strategy with --spec"
        error.hint = f"{error.hint}; {found}" if error.hint else found
        raise


def _check(
    path: Path,
    admission: Admission | None,
    target: ModelFiles,
    plugins: PowerPluginManager,
    progress: RoleProgress | None,
    *,
    found: bool,
) -> DraftChoice:
    if admission is not None:
        verify_names_and_sizes(admission, target, progress)
    files = scan_model(path)
    with blame_absent_plugin(path, plugins):
        kind = check_pair(target, files, plugins.validators())
    if admission is not None:
        verify_facts(admission, target=target, draft=files, kind=kind)
    return DraftChoice(files=files, kind=kind, admission=admission, found=found)
