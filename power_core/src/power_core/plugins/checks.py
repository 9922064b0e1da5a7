"""What is wrong with a value that a plugin registered: one clause that continues "..., which", or None."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from power_core.plugins.types import BackendSpec, HealthCheck, PluginInfo, StrategySpec
from power_core.strategies import BUILT_IN_WORDS, RESERVED_STRATEGIES

MAX_DRAFT_TOKENS = 64

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ALIAS = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")


def info_problem(info: object) -> str | None:
    """Check the handshake's own shape; the version is judged elsewhere."""
    if not isinstance(info, PluginInfo):
        return _wrong_type(info, PluginInfo)
    if not _is_text(info.name):
        return f"has name {info.name!r}, expected a non-empty string"
    api: object = info.api
    if not (isinstance(api, tuple) and len(api) == 2 and all(type(number) is int and number >= 0 for number in api)):
        return f"has api {api!r}, expected two integers such as (1, 0)"
    return None


def strategy_problem(spec: object) -> str | None:
    """Check names, aliases, K and factories of one strategy."""
    if not isinstance(spec, StrategySpec):
        return _wrong_type(spec, StrategySpec)
    return _name_problem(spec.name) or _aliases_problem(spec.name, spec.aliases) or _strategy_fields_problem(spec)


def backend_problem(spec: object) -> str | None:
    """Check one backend's name and factory."""
    if not isinstance(spec, BackendSpec):
        return _wrong_type(spec, BackendSpec)
    if not _is_text(spec.name):
        return f"has name {spec.name!r}, expected a non-empty string"
    return _first_uncallable(spec, ("open_model",))


def health_check_problem(check: object) -> str | None:
    """Check one health check's name and function."""
    if not isinstance(check, HealthCheck):
        return _wrong_type(check, HealthCheck)
    if not _is_text(check.name):
        return f"has name {check.name!r}, expected a non-empty string"
    return _first_uncallable(check, ("run",))


def validator_problem(validator: object) -> str | None:
    """Check that a validator has its two texts and two methods; the protocol's module is not needed for that."""
    for field in ("kind", "describe"):
        if not _is_text(getattr(validator, field, None)):
            return f"has no text `{field}`, expected an ArtifactValidator"
    for method in ("matches", "validate"):
        if not callable(getattr(validator, method, None)):
            return f"has no method `{method}`, expected an ArtifactValidator"
    return None


def repeated_word(specs: Iterable[StrategySpec]) -> str | None:
    """Return a name or alias that one plugin's own strategies use twice."""
    counts = Counter(word for spec in specs for word in (spec.name, *spec.aliases))
    return next((word for word, count in counts.items() if count > 1), None)


def _wrong_type(item: object, expected: type) -> str:
    return f"has type {type(item).__name__}, expected {expected.__name__}"


def _name_problem(name: object) -> str | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"has name {name!r}, expected kebab-case such as 'my-strategy'"
    if name in RESERVED_STRATEGIES:
        return f"has name {name!r}, which is reserved"
    if BUILT_IN_WORDS.get(name, name) != name:
        return f"has name {name!r}, which is an alias of the built-in strategy '{BUILT_IN_WORDS[name]}'"
    return None


def _aliases_problem(name: str, aliases: object) -> str | None:
    if not isinstance(aliases, tuple):
        return f"has aliases {aliases!r}, expected a tuple of strings"
    for alias in aliases:
        if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
            return f"has alias {alias!r}, expected lower-case letters and digits joined by '-', '_' or '.'"
        if BUILT_IN_WORDS.get(alias, name) != name:
            return f"has alias {alias!r}, which belongs to the built-in strategy '{BUILT_IN_WORDS[alias]}'"
    return None


def _strategy_fields_problem(spec: StrategySpec) -> str | None:
    draft_max: object = spec.default_draft_max_tokens
    if type(draft_max) is not int or not 1 <= draft_max <= MAX_DRAFT_TOKENS:
        return f"has default_draft_max_tokens {draft_max!r}, expected an integer from 1 to {MAX_DRAFT_TOKENS}"
    for field in ("uses_draft_file", "model_backed"):
        if not isinstance(getattr(spec, field), bool):
            return f"has {field} {getattr(spec, field)!r}, expected True or False"
    for field, words in (("options", spec.options), ("schedulers", spec.schedulers)):
        if not isinstance(words, tuple) or not all(_is_text(word) for word in words):
            return f"has {field} {words!r}, expected a tuple of strings"
    if not spec.schedulers:
        return "has schedulers (), expected one at least"
    return _first_uncallable(spec, ("refuse", "needs", "create_drafter", "most_drafts", "most_ctx", "has_confidence"))


def _first_uncallable(item: object, fields: Sequence[str]) -> str | None:
    for field in fields:
        if not callable(getattr(item, field)):
            return f"has {field} {getattr(item, field)!r}, expected a callable"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
