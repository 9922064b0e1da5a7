"""Applies native/patches/*.patch: unified diffs, in order, exactly or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unidiff.constants import LINE_TYPE_NO_NEWLINE
from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from power_native_build.errors import BuildError


def apply_patches(folder: Path, patches: Iterable[Path]) -> None:
    """Apply the patches to the files below `folder`, which is left half-patched on failure: patch a copy.

    Every context line must be where the hunk says: no fuzz, no offsets.

    Raises:
        BuildError: a patch cannot be read or does not apply; names the patch, the file and the hunk.
    """
    for patch in patches:
        try:
            changed_files = PatchSet(patch.read_text(encoding="utf-8"))
        except UnidiffParseError as error:
            raise BuildError(f"{patch.name} is not a unified diff: {error}") from error
        if not changed_files:
            raise BuildError(f"{patch.name} changes nothing: no unified diff with a/ and b/ paths was found in it")
        for changed in changed_files:
            _apply_file(folder, patch, changed)


def _apply_file(folder: Path, patch: Path, changed: PatchedFile) -> None:
    target = folder / changed.path
    if changed.is_added_file:
        if target.exists():
            raise BuildError(f"{patch.name} adds {changed.path}, which exists already")
        old_lines = []
    elif target.is_file():
        old_lines = target.read_text(encoding="utf-8").splitlines(keepends=True)
    else:
        raise BuildError(f"{patch.name} changes {changed.path}, which the source does not have")
    new_lines = _patched_lines(old_lines, patch, changed)
    if changed.is_removed_file:
        target.unlink()
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(new_lines), encoding="utf-8")


def _patched_lines(old_lines: list[str], patch: Path, changed: PatchedFile) -> list[str]:
    new_lines: list[str] = []
    taken = 0
    for hunk in changed:
        start = hunk.source_start - 1 if hunk.source_length else hunk.source_start
        before, after = _sides(hunk)
        if start < taken or old_lines[start : start + len(before)] != before:
            raise BuildError(
                f"{patch.name} does not apply to {changed.path} at line {hunk.source_start}: "
                "the source differs from what the patch expects. Name an unpatched source of the pinned commit."
            )
        new_lines += old_lines[taken:start] + after
        taken = start + len(before)
    return new_lines + old_lines[taken:]


def _sides(hunk: Hunk) -> tuple[list[str], list[str]]:
    """The lines that a hunk expects and the lines it leaves, with their line ends."""
    before: list[str] = []
    after: list[str] = []
    last_line_of: list[list[str]] = []
    for line in hunk:
        if line.line_type == LINE_TYPE_NO_NEWLINE:
            for side in last_line_of:
                side[-1] = side[-1].removesuffix("\n")
            continue
        last_line_of = [*([] if line.is_added else [before]), *([] if line.is_removed else [after])]
        for side in last_line_of:
            side.append(line.value)
    return before, after
