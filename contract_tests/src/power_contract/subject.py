"""What a plugin says about itself to the kit, and how the kit finds it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import attrs

from power_core.errors import ConfigError, PowerError
from power_core.testing.tiny_weights import TargetKind

GROUP = "power.contract_subjects"

Feature: TypeAlias = Literal[
    "model-backed", "draft-file", "taps", "nextn-taps", "confidence", "mutable-memory", "native", "known-drafts"
]
FEATURES: tuple[str, ...] = get_args(Feature)


@attrs.frozen(kw_only=True)
class Waiver:
    """A clause that the plugin is known to break. Strict: once the clause holds, the run fails until this is removed.

    Attributes:
        clause: Id of the clause.
        reason: Why it is broken.
        link: Where the repair is tracked.
    """

    clause: str
    reason: str
    link: str


@attrs.frozen(kw_only=True)
class ArtifactCase:
    """A broken file that the plugin's validator must refuse.

    Attributes:
        name: Unique kebab-case name.
        build: Writes the file into an empty folder and returns its path.
        check_id: Id of the check that must fail.
    """

    name: str
    build: Callable[[Path], Path]
    check_id: str


@attrs.frozen(kw_only=True)
class KnownDraft:
    """Drafts that were worked out without the plugin, for the subject's own tiny pair.

    Attributes:
        prompt: The prompt.
        generated: Tokens that were emitted after it and committed.
        anchor: Token that the drafts follow.
        tokens: The drafts; none where the plugin must not guess.
    """

    prompt: tuple[int, ...]
    generated: tuple[int, ...] = ()
    anchor: int
    tokens: tuple[int, ...]


@attrs.frozen(kw_only=True, repr=False)
class ContractSubject:
    """A plugin under test.

    Attributes:
        name: Its distribution.
        strategy: The strategy that is tested.
        plugin: Its plugin module, as the entry point in group ``power`` names it.
        features: What it has; a clause that needs another feature reads "not declared", and a wrong declaration
            breaks INFO-04.

            - ``model-backed``: weights behind it; ``draft-file``: they are in a file of their own
            - ``taps``: reads hidden rows of target layers; ``nextn-taps``: reads the prediction heads' state rows
            - ``confidence``: says how likely each draft is
            - ``mutable-memory``: what it was fed changes its later drafts
            - ``native``: needs the native backend's own target; no other backend can run it
            - ``known-drafts``: ``known_drafts`` tells drafts that were worked out without the plugin

        target_kinds: Tiny targets to run on (``power_core.testing.build_tiny_target``).
        build_draft: Writes a draft for a target of that kind into a folder and returns its path; None without
            ``draft-file``.
        draft_max: Drafts per round (K) in the histories, at least 3.
        artifact_cases: Broken files that its validator must refuse; None without a validator.
        layout_keys: Keys of a valid file that decide how it is read; without any of them the validator must refuse it.
        known_drafts: Drafts on a target of that kind (``build_tiny_target``, seed 0) with ``build_draft``'s draft.
        waivers: Clauses it is known to break.
    """

    name: str
    strategy: str
    plugin: str
    features: frozenset[Feature]
    target_kinds: tuple[TargetKind, ...]
    build_draft: Callable[[Path, TargetKind], Path] | None = None
    draft_max: int = 4
    artifact_cases: Callable[[], Iterable[ArtifactCase]] | None = None
    layout_keys: tuple[str, ...] = ()
    known_drafts: Callable[[TargetKind], Iterable[KnownDraft]] | None = None
    waivers: tuple[Waiver, ...] = ()

    def __repr__(self) -> str:
        return f"<subject {self.name}, strategy {self.strategy}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Keep Hypothesis, which prints the arguments of a failing test, from printing every field."""
        printer.text(repr(self))

    def __attrs_post_init__(self) -> None:
        unknown = sorted(self.features - set(FEATURES))
        _require(not unknown, "features", unknown, f"of {', '.join(FEATURES)}")
        kinds = get_args(TargetKind)
        known = bool(self.target_kinds) and set(self.target_kinds) <= set(kinds)
        _require(known, "target_kinds", self.target_kinds, f"at least one of {', '.join(kinds)}")
        _require(self.draft_max >= 3, "draft_max", self.draft_max, "at least 3, so that a prefix can be partial")
        builds = self.build_draft is not None
        _require(builds == ("draft-file" in self.features), "build_draft", self.build_draft, "iff `draft-file`")
        known = self.known_drafts is not None
        _require(known == ("known-drafts" in self.features), "known_drafts", self.known_drafts, "iff `known-drafts`")


def find_subject(word: str) -> ContractSubject:
    """Return the subject of an installed distribution, or what ``module:attribute`` is or, as a function, makes.

    Raises:
        ConfigError: nothing is called so, or what is found is no subject.
    """
    try:
        found = _load(word)
        if not isinstance(found, ContractSubject) and callable(found):
            found = found()
    except PowerError:
        raise
    except Exception as error:  # an author's module and function may raise anything
        raise _not_found(word, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, ContractSubject):
        raise _not_found(word, f"it is a {type(found).__name__}, expected a ContractSubject")
    return found


def _load(word: str) -> object:
    if ":" in word:
        module, _, attribute = word.partition(":")
        return getattr(importlib.import_module(module), attribute)
    points = {point.name: point for point in metadata.entry_points(group=GROUP)}
    if word not in points:
        raise _not_found(word, f"installed subjects: {', '.join(sorted(points)) or 'none'}")
    return points[word].load()


def _require(holds: bool, field: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(
            f"`{field}` of the subject is {value!r}, expected {allowed}", field=field, value=value, allowed=allowed
        )


def _not_found(word: str, reason: str) -> ConfigError:
    return ConfigError(
        f"there is no contract subject {word!r}: {reason}",
        field="subject",
        value=word,
        allowed="a name in entry-point group `power.contract_subjects`, or `module:attribute`",
        hint="install the plugin with its entry point in group `power.contract_subjects`, or name `module:attribute`",
    )
