"""Every admission that has to be refused: files that changed, manifests that were edited, damaged or misplaced.

Each case is a target and a draft of some hundred bytes, admitted as they should be, then changed, then opened.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from admission_files import (
    PROVENANCE,
    Pair,
    admitted_pair,
    draft_bytes,
    flip,
    found,
    offset_of,
    opened,
    resize,
    target_bytes,
    write_pair,
)
from artifact_cases import ArtifactCase
from broken_manifests import MANIFEST_CASES

from power_core.admission import Provenance, admit_draft

DIGEST, PAIRING, CONTRACT, FORMAT = "artifact.digest", "artifact.pairing", "artifact.contract", "artifact.format"
NOT_FOUND, CONFIG = "artifact.not_found", "config.invalid"


def _changed_files() -> Iterator[ArtifactCase]:
    flips: dict[str, tuple[str, Callable[[Pair], object]]] = {
        "header": ("a byte of a value in the header", lambda pair: flip(pair.draft, offset_of(pair.draft, b"draft"))),
        "data": ("a byte of tensor data", lambda pair: flip(pair.draft, pair.draft.stat().st_size - 300)),
        "last": ("the last byte", lambda pair: flip(pair.draft, -1)),
    }
    for name, (what, change) in flips.items():
        yield ArtifactCase(
            name=f"draft-byte-{name}",
            fault=f"the draft changed: {what}",
            attempt=opened(change),
            code=DIGEST,
            check_id="admission.draft_sha256",
        )
    for name, size in (("shorter", -1), ("longer", 1), ("empty", -(10**6))):
        yield ArtifactCase(
            name=f"draft-{name}",
            fault=f"the draft became {name}",
            attempt=opened(lambda pair, size=size: resize(pair.draft, size)),
            code=DIGEST,
            check_id="admission.draft_size",
        )
    for where, offset in (("header", lambda pair: offset_of(pair.target, b"TTTT")), ("last", lambda pair: -1)):
        yield ArtifactCase(
            name=f"target-byte-{where}",
            fault=f"the target changed: a byte, {where}",
            attempt=opened(lambda pair, offset=offset: flip(pair.target, offset(pair))),
            code=PAIRING,
            check_id="admission.target_sha256",
        )
    yield ArtifactCase(
        name="target-other-size",
        fault="another target, of another size",
        attempt=opened(lambda pair: pair.target.write_bytes(target_bytes(padding=64))),
        code=PAIRING,
        check_id="admission.target_size",
    )
    yield ArtifactCase(
        name="draft-of-other-kind",
        fault="a draft of another kind lies under the admitted name",
        attempt=opened(lambda pair: pair.draft.write_bytes(draft_bytes(kind="dspark"))),
        code=CONTRACT,
        check_id="admission.kind",
    )
    yield ArtifactCase(
        name="draft-without-rule",
        fault="the draft was replaced by one that breaks the rules of its kind",
        attempt=opened(lambda pair: replace_by_broken(pair)),
        code=CONTRACT,
        check_id="dflash.width",
    )


def replace_by_broken(pair: Pair) -> None:
    """Make the manifest fit a broken draft, so that the contract alone is left to refuse it."""
    pair.draft.write_bytes(draft_bytes(width=None))
    pair.edit(lambda values: values["draft"].update(size_bytes=pair.draft.stat().st_size), sign=True)


def _swapped() -> Iterator[ArtifactCase]:
    def two(folder: Path) -> tuple[Pair, Pair]:
        return admitted_pair(folder, "-a", mark=1), admitted_pair(folder, "-b", mark=2)

    def foreign_draft(folder: Path) -> object:
        first, second = two(folder)
        return Pair(first.target, second.draft).open()

    def swapped_files(folder: Path) -> object:
        first, second = two(folder)
        first.draft.rename(folder / "other")
        second.draft.rename(first.draft)
        (folder / "other").rename(second.draft)
        return first.open()

    def swapped_manifests(folder: Path) -> object:
        first, second = two(folder)
        first.manifest.rename(folder / "other")
        second.manifest.rename(first.manifest)
        return first.open()

    yield ArtifactCase(
        name="foreign-draft",
        fault="a draft that is admitted for another target of the same size",
        attempt=foreign_draft,
        code=PAIRING,
        check_id="admission.target_sha256",
    )
    yield ArtifactCase(
        name="swapped-drafts",
        fault="two admitted drafts changed names",
        attempt=swapped_files,
        code=DIGEST,
        check_id="admission.draft_sha256",
    )
    yield ArtifactCase(
        name="swapped-manifests",
        fault="a manifest lies beside another draft than its own",
        attempt=swapped_manifests,
        code=FORMAT,
        check_id="admission.file_name",
    )


def _misplaced() -> Iterator[ArtifactCase]:
    places: dict[str, tuple[str, Callable[[Pair], object]]] = {
        "folder": ("a folder lies in the manifest's place", lambda pair: pair.manifest.mkdir()),
        "dangling-link": ("the manifest is a link to nothing", lambda pair: pair.manifest.symlink_to("nothing")),
        "pipe": ("a pipe lies in the manifest's place", lambda pair: os.mkfifo(pair.manifest)),
    }
    for name, (fault, place) in places.items():
        yield ArtifactCase(
            name=f"manifest-{name}",
            fault=fault,
            attempt=opened(lambda pair, place=place: (pair.manifest.unlink(), place(pair))),
            code=NOT_FOUND,
            check_id="admission.unreadable",
        )
    yield ArtifactCase(
        name="manifest-renamed",
        fault="`auto` finds a manifest under another name",
        attempt=found(lambda pair: pair.manifest.rename(pair.manifest.with_name("other.gguf.admission.json"))),
        code=FORMAT,
        check_id="admission.file_name",
    )
    yield ArtifactCase(
        name="found-without-draft",
        fault="`auto` finds a manifest whose draft is gone",
        attempt=found(lambda pair: pair.draft.unlink()),
        code=NOT_FOUND,
        check_id="admission.draft_missing",
    )
    yield ArtifactCase(
        name="found-damaged",
        fault="`auto` finds a damaged manifest beside the target, of whatever draft",
        attempt=found(lambda pair: (pair.target.parent / "x.admission.json").write_text("{")),
        code=FORMAT,
        check_id="admission.json",
    )
    yield ArtifactCase(
        name="found-for-strategy-damaged",
        fault="`--spec dspark` without a draft finds a damaged manifest",
        attempt=found(lambda pair: pair.manifest.write_text("{"), spec="dspark"),
        code=FORMAT,
        check_id="admission.json",
    )
    yield ArtifactCase(
        name="found-changed",
        fault="`auto` finds a draft that changed",
        attempt=found(lambda pair: flip(pair.draft, -1)),
        code=DIGEST,
        check_id="admission.draft_sha256",
    )
    yield ArtifactCase(
        name="found-folder",
        fault="`auto` finds a manifest in whose draft's place a folder lies",
        attempt=found(lambda pair: (pair.draft.unlink(), pair.draft.mkdir())),
        code=NOT_FOUND,
        check_id="admission.draft_missing",
    )
    yield ArtifactCase(
        name="draft-pipe",
        fault="a pipe lies in the place of an admitted draft",
        attempt=opened(lambda pair: (pair.draft.unlink(), os.mkfifo(pair.draft))),
        code=NOT_FOUND,
        check_id="admission.draft_missing",
    )
    for name, change in (
        ("changed", lambda pair: flip(pair.target, -1)),
        ("longer", lambda pair: resize(pair.target, 1)),
    ):
        yield ArtifactCase(
            name=f"named-strategy-{name}-target",
            fault=f"`--spec dflash` without `--draft`, and the target {name} since a draft was admitted for it",
            attempt=_named_strategy(change),
            code=PAIRING,
            check_id="admission.other_target",
        )
    yield ArtifactCase(
        name="draft-as-target",
        fault="a draft is given as the target",
        attempt=lambda folder: _given_as_target(write_pair(folder)),
        code=CONTRACT,
        check_id="target.role",
    )
    yield ArtifactCase(
        name="found-several",
        fault="two drafts are admitted for one target",
        attempt=_several,
        code=CONFIG,
        check_id="",
    )


def _named_strategy(change: Callable[[Pair], object]) -> Callable[[Path], object]:
    def attempt(folder: Path) -> object:
        pair = admitted_pair(folder)
        change(pair)
        return pair.open_without(spec="dflash")

    return attempt


def _given_as_target(pair: Pair) -> object:
    return Pair(pair.draft, pair.target).open_without(spec="off")


def _several(folder: Path) -> object:
    pair = admitted_pair(folder)
    other = Pair(pair.target, folder / "second.gguf")
    other.draft.write_bytes(draft_bytes(kind="dspark"))
    other.admit()
    return pair.open_without()


def _unusable_drafts() -> Iterator[ArtifactCase]:
    def given(name: str, make: Callable[[Pair, Path], object]) -> Callable[[Path], object]:
        def attempt(folder: Path) -> object:
            pair = write_pair(folder)
            path = folder / name
            make(pair, path)
            return Pair(pair.target, path).open()

        return attempt

    def unreadable(pair: Pair, path: Path) -> None:
        path.symlink_to(path.name)

    yield ArtifactCase(
        name="draft-is-target",
        fault="the draft is the target",
        attempt=given("target.gguf", lambda pair, path: None),
        code=PAIRING,
        check_id="draft.same_file",
    )
    for name, link in (("symbolic", Path.symlink_to), ("hard", Path.hardlink_to)):
        yield ArtifactCase(
            name=f"draft-is-target-{name}-link",
            fault=f"the draft is a {name} link to the target",
            attempt=given("link.gguf", lambda pair, path, link=link: link(path, pair.target)),
            code=PAIRING,
            check_id="draft.same_file",
        )
    files: dict[str, tuple[str, Callable[[Pair, Path], object], str, str]] = {
        "copy": (
            "the draft is a copy of the target",
            lambda pair, path: shutil.copy(pair.target, path),
            CONTRACT,
            "draft.role",
        ),
        "absent": ("the draft does not exist", lambda pair, path: None, NOT_FOUND, ""),
        "folder": ("the draft is a folder", lambda pair, path: path.mkdir(), NOT_FOUND, ""),
        "link-loop": ("the draft is a link to itself", unreadable, NOT_FOUND, ""),
        "nothing": ("the draft is an empty file", lambda pair, path: path.touch(), FORMAT, "gguf.empty"),
        "foreign": (
            "the draft fits no target of this width",
            lambda pair, path: path.write_bytes(draft_bytes(width=64)),
            PAIRING,
            "pair.width",
        ),
    }
    for name, (fault, make, code, check_id) in files.items():
        yield ArtifactCase(
            name=f"given-{name}", fault=fault, attempt=given("x.gguf", make), code=code, check_id=check_id
        )


def _admitted(change: Callable[[Pair], object], provenance: Provenance = PROVENANCE) -> Callable[[Path], object]:
    """Write a pair, change something, admit it."""

    def attempt(folder: Path) -> object:
        pair = write_pair(folder)
        change(pair)
        return pair.admit(provenance)

    return attempt


def admit_without_plugins(pair: Pair) -> object:
    return admit_draft(pair.target, pair.draft, PROVENANCE, validators=())


def _refused_admissions() -> Iterator[ArtifactCase]:
    def again(change: Callable[[Pair], object], provenance: Provenance = PROVENANCE) -> Callable[[Path], object]:
        def attempt(folder: Path) -> object:
            pair = admitted_pair(folder)
            change(pair)
            return pair.admit(provenance)

        return attempt

    def written_meanwhile(pair: Pair) -> object:
        def touch(role: str, done: int, total: int) -> None:
            if role == "target":
                flip(pair.draft, -1)

        return pair.admit(progress=touch)

    other = Provenance(source="https://example.org/other", revision="4f2a1c", license="Apache-2.0")
    yield ArtifactCase(
        name="admit-other-source",
        fault="a manifest with another source exists",
        attempt=again(lambda pair: None, other),
        code=CONFIG,
        check_id="",
    )
    yield ArtifactCase(
        name="admit-changed-draft",
        fault="a manifest for other bytes of the draft exists",
        attempt=again(lambda pair: flip(pair.draft, -1)),
        code=CONFIG,
        check_id="",
    )
    yield ArtifactCase(
        name="admit-over-damaged",
        fault="a damaged manifest exists",
        attempt=again(lambda pair: pair.manifest.write_text("{")),
        code=FORMAT,
        check_id="admission.json",
    )
    yield ArtifactCase(
        name="admit-file-in-use",
        fault="the draft is written to while it is admitted",
        attempt=lambda folder: written_meanwhile(write_pair(folder)),
        code=DIGEST,
        check_id="identity.changed",
    )
    yield ArtifactCase(
        name="admit-target-is-draft",
        fault="target and draft are given the wrong way round",
        attempt=lambda folder: Pair(write_pair(folder).draft, folder / "target.gguf").admit(),
        code=CONTRACT,
        check_id="target.role",
    )
    yield ArtifactCase(
        name="admit-without-plugin",
        fault="no installed plugin reads the draft",
        attempt=lambda folder: admit_without_plugins(write_pair(folder)),
        code=CONTRACT,
        check_id="draft.role",
    )
    yield ArtifactCase(
        name="admit-broken-draft",
        fault="the draft breaks a rule of its kind",
        attempt=_admitted(lambda pair: pair.draft.write_bytes(draft_bytes(width=None))),
        code=CONTRACT,
        check_id="dflash.width",
    )


CASES: tuple[ArtifactCase, ...] = (
    *_changed_files(),
    *_swapped(),
    *MANIFEST_CASES,
    *_misplaced(),
    *_unusable_drafts(),
    *_refused_admissions(),
)
