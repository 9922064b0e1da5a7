"""Faults in what a plugin says of files, and in what the core makes of it. Area ART."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import attrs

from mutants.planting import changed_specs, mutant, replaced
from power_core import opening
from power_core.artifacts import BlockDraftValidator, GgufHeader, drafts, key_checks, model_files
from power_core.artifacts.validation import CheckList
from power_core.errors import PowerError, UnsupportedStrategyError
from power_core.plugins.manager import PowerPluginManager
from power_core.strategies import ResolvedStrategy


def claims(rule: Callable[[GgufHeader], bool]) -> AbstractContextManager[None]:
    """Let the validator of DSpark drafts claim files by another rule."""
    matches = BlockDraftValidator.matches

    def by_rule(self: BlockDraftValidator, header: GgufHeader) -> bool:
        return rule(header) if self.kind == "dspark" else matches(self, header)

    return replaced(BlockDraftValidator, "matches", by_rule)


def check_passes(*names: str) -> AbstractContextManager[None]:
    """Make checks of these names pass, whatever they find."""
    add = CheckList.add

    def lenient(self: Any, name: str, passed: bool, message: str, **facts: Any) -> bool:
        return add(self, name, passed or name in names, message, **facts)

    return replaced(CheckList, "add", lenient)


@mutant("ART-01", "dspark")
def own_file_is_not_claimed() -> Iterator[None]:
    """The validator does not claim the plugin's own files."""
    with claims(lambda header: False):
        yield


@mutant("ART-02", "dspark")
def one_check_is_left_out() -> Iterator[None]:
    """The heads of the draft are not checked to divide."""
    with check_passes("head_groups"):
        yield


@mutant("ART-03", "dspark")
def every_draft_is_claimed() -> Iterator[None]:
    """The validator claims every file of the family."""
    with claims(lambda header: header.get("general.architecture") == "dflash"):
        yield


@mutant("ART-04", "dspark")
def file_name_decides() -> Iterator[None]:
    """A file is claimed by its name."""
    with claims(lambda header: "dspark-" in header.path.name):
        yield


@mutant("ART-05", "dspark")
def short_file_fails_by_chance() -> Iterator[None]:
    """A file that ends too early fails with the error of whatever ran out of bytes."""

    scan = model_files.scan_header

    def careless(path: Any) -> Any:
        try:
            return scan(path)
        except PowerError as error:
            raise struct.error("unpack requires a buffer of 8 bytes") from error

    with replaced(model_files, "scan_header", careless):
        yield


@mutant("ART-06", "dspark")
def layout_default() -> Iterator[None]:
    """A missing `sample_from_anchor` counts as true."""
    flag = key_checks.ArchitectureKeys.flag

    def guessed(self: Any, suffix: str) -> bool | None:
        if suffix == "sample_from_anchor" and not self.has(suffix):
            return True
        return flag(self, suffix)

    with replaced(key_checks.ArchitectureKeys, "flag", guessed):
        yield


@mutant("ART-07", "dspark")
def shapes_are_used_unchecked() -> Iterator[None]:
    """`most_drafts` divides by the dimensions of every tensor."""

    def change(spec: Any) -> Any:
        def most_drafts(target: Any, draft: Any) -> int | None:
            elements = [64 // width for tensor in draft.tensors.values() for width in tensor.shape]
            return spec.most_drafts(target, draft) if elements else None

        return attrs.evolve(spec, most_drafts=most_drafts)

    with changed_specs("dspark", change):
        yield


@mutant("ART-08", "dspark")
def any_tokenizer_will_do() -> Iterator[None]:
    """The tokenizers of target and draft are not compared."""
    with replaced(drafts, "check_tokenizer_pair", lambda target, draft, checks: None):
        yield


@mutant("ART-10", "dspark")
def any_width_will_do() -> Iterator[None]:
    """The width of the target's hidden rows is not compared with the draft's."""
    with check_passes("hidden_width"):
        yield


@mutant("ART-09", "dspark")
def silent_fallback() -> Iterator[None]:
    """A strategy that cannot run on the files gives way to plain decoding."""
    negotiate = PowerPluginManager.negotiate

    def obliging(self: Any, requested: str, target: Any, draft: Any) -> Any:
        try:
            return negotiate(self, requested, target, draft)
        except UnsupportedStrategyError:
            return ResolvedStrategy(name="off", spec=None, refusals={})

    with (
        replaced(PowerPluginManager, "negotiate", obliging),
        replaced(opening, "choose_draft", lambda *arguments: None),
        changed_specs("dspark", lambda spec: attrs.evolve(spec, uses_draft_file=False)),
    ):
        yield


@mutant("ART-09", "mtp")
def never_refuses() -> Iterator[None]:
    """The strategy refuses no file."""
    with changed_specs("mtp", lambda spec: attrs.evolve(spec, refuse=lambda target, draft: None)):
        yield
