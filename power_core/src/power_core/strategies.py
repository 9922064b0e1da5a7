"""Strategy names, and the negotiation that ends in one strategy or in an error; nothing cheaper is ever used instead.

Three steps: ``parse_strategy`` turns what the user wrote into a canonical name, the registered ``StrategySpec`` values
say which strategies can run on the given files, and ``CapabilitySet.resolve`` answers yes or raises.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from power_core.errors import ConfigError, PluginContractError, PowerError, UnsupportedStrategyError

if TYPE_CHECKING:
    from power_core.artifacts.gguf import GgufHeader
    from power_core.plugins.types import StrategySpec

AUTO = "auto"
OFF = "off"
MTP = "mtp"
DRAFT_MODEL = "draft-model"

BUILT_IN_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AUTO: (),
        OFF: ("none", "false"),
        "prompt-lookup": ("prompt_lookup", "lookup", "true"),
        "ngram-context": ("ngram_context", "context"),
        "ngram-pool": ("ngram_pool",),
        DRAFT_MODEL: ("draft_model", "draft"),
        MTP: ("multi-token-prediction", "multi_token_prediction"),
        "dflash": (),
        "dflash2": ("dflash-2", "dflash_2"),
        "dspark": (),
    }
)
CANONICAL_STRATEGIES = tuple(BUILT_IN_ALIASES)
RESERVED_STRATEGIES = (AUTO, OFF, DRAFT_MODEL)
BUILT_IN_WORDS: Mapping[str, str] = MappingProxyType(
    {word: name for name, aliases in BUILT_IN_ALIASES.items() for word in (name, *aliases)}
)
STRATEGY_DISTRIBUTIONS: Mapping[str, str] = MappingProxyType(
    {
        "prompt-lookup": "power-ngram",
        "ngram-context": "power-ngram",
        "ngram-pool": "power-ngram",
        MTP: "power-mtp",
        "dflash": "power-dflash",
        "dflash2": "power-dflash2",
        "dspark": "power-dspark",
    }
)

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_NOTHING: Mapping[str, PowerError] = MappingProxyType({})


def normalize_strategy_word(text: str) -> str:
    """Return ``text`` trimmed and with ASCII letters lowered; other letters stay as they are."""
    return text.strip().translate(_ASCII_LOWER)


def parse_strategy(text: str, extra: Mapping[str, str]) -> str:
    """Return the canonical name of a strategy. Parseable does not mean that it can run.

    Args:
        text: What the user wrote; surrounding space and ASCII case do not matter.
        extra: Further words, lower case, to canonical names: what plugins registered. Built-in words win.

    Raises:
        ConfigError: the word is unknown; lists the expected names and suggests the nearest word.

    Source: power_reference.md section 1.1.
    """
    words = {**extra, **BUILT_IN_WORDS}
    word = normalize_strategy_word(text)
    if word in words:
        return words[word]
    expected = ", ".join(_in_order({*CANONICAL_STRATEGIES, *extra.values()}))
    nearest = difflib.get_close_matches(word, words, n=1)
    raise ConfigError(
        f"unknown speculative strategy {text!r}; expected one of: {expected}",
        field="spec",
        value=text,
        allowed=expected,
        hint=f"did you mean '{nearest[0]}'?" if nearest else "run `power plugins list` to see what plugins provide",
    )


def strategy_words(
    specs: Mapping[str, StrategySpec], unavailable: Mapping[str, PowerError] = _NOTHING
) -> dict[str, str]:
    """Return every word that plugins add, mapped to its canonical name: the ``extra`` of ``parse_strategy``.

    A word in ``unavailable`` stands for itself, so that asking for it raises its recorded error.
    """
    words = {word: spec.name for spec in specs.values() for word in (spec.name, *spec.aliases)}
    return words | {word: word for word in unavailable}


def _frozen_with_off(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names) - {AUTO} | {OFF}


@attrs.frozen(kw_only=True)
class CapabilitySet:
    """The strategies that a backend and a model can run: ``off`` always, ``auto`` never, for it is a question.

    Source: power_reference.md section 1.2.
    """

    names: frozenset[str] = attrs.field(factory=frozenset, converter=_frozen_with_off)

    @classmethod
    def none(cls) -> CapabilitySet:
        """Return the set that contains ``off`` alone."""
        return cls()

    def with_(self, name: str) -> CapabilitySet:
        """Return a set that also contains ``name``; ``auto`` changes nothing."""
        return CapabilitySet(names=self.names | {name})

    def supports(self, name: str) -> bool:
        """Tell whether ``name`` may be asked for; always true for ``auto``."""
        return name == AUTO or name in self.names

    @property
    def available(self) -> tuple[str, ...]:
        """The names, built-in ones first in their documented order, then the others by alphabet."""
        return _in_order(self.names)

    def resolve(self, requested: str, backend_default: str, *, hint: str = "") -> str:
        """Return the strategy to run: ``requested``, or ``backend_default`` for ``auto``.

        Args:
            requested: A canonical name.
            backend_default: What ``auto`` means here; a canonical name other than ``auto``.
            hint: Added to the error's hint, after the list of what is available.

        Raises:
            UnsupportedStrategyError: the resolved strategy is not in the set, also when ``auto`` led to it.
            ConfigError: ``backend_default`` is ``auto``, which would answer the question with the question.
        """
        if backend_default == AUTO:
            raise ConfigError(
                f"`backend_default` is {backend_default!r}, expected one of: {', '.join(self.available)}",
                field="backend_default",
                value=backend_default,
                allowed=", ".join(self.available),
            )
        resolved = backend_default if requested == AUTO else requested
        if not self.supports(resolved):
            raise _unsupported(resolved, self, requested=requested, hint=hint)
        return resolved


@attrs.frozen(kw_only=True)
class ResolvedStrategy:
    """The outcome of a negotiation.

    Attributes:
        name: Canonical name of the strategy to run.
        spec: Its registered data; None for ``off``.
        refusals: Why other strategies cannot run here, one sentence each, by name.
    """

    name: str
    spec: StrategySpec | None
    refusals: Mapping[str, str]


def negotiate(
    requested: str,
    target_header: GgufHeader,
    draft_header: GgufHeader | None,
    specs: Mapping[str, StrategySpec],
    unavailable: Mapping[str, PowerError] = _NOTHING,
) -> ResolvedStrategy:
    """Return the one strategy to run on these files, or raise; opens nothing.

    ``auto`` means: the kind of the given draft, else ``mtp`` where the target can, else ``off``. It never means a
    strategy without a draft graph. A draft file that would not be read is an error.

    Args:
        requested: A name or alias.
        target_header: Header of the target, handed to every ``StrategySpec.refuse``.
        draft_header: Header of the external draft, None when the user gave none.
        specs: Registered strategies by canonical name.
        unavailable: Names whose plugin failed, clashed or was left out, with the error that asking for them raises.
            ``auto`` does not ask for them; they appear in ``refusals``.

    Raises:
        ConfigError: unknown name; draft missing, not used, or fitting several strategies.
        UnsupportedStrategyError: refused on these files, reserved, or its plugin is not installed.
        PluginContractError: the requested strategy's ``refuse`` raised, or returned neither None nor a sentence.
        PowerError: the recorded error of an unavailable strategy.

    Source: power_reference.md sections 1.2 and 1.3, rules 2, 3 and 7.
    """
    strategy = parse_strategy(requested, strategy_words(specs, unavailable))
    if strategy in unavailable:
        raise unavailable[strategy]
    refusals = _collect_refusals(strategy, target_header, draft_header, specs)
    capabilities = CapabilitySet(names=specs.keys() - refusals.keys())
    refusals |= {name: str(error) for name, error in unavailable.items()}
    if strategy == AUTO:
        default = _automatic_choice(draft_header is not None, specs, refusals, capabilities)
    else:
        default = OFF
        _require_explicit(strategy, draft_header is not None, specs, refusals, capabilities)
    name = capabilities.resolve(strategy, default)
    return ResolvedStrategy(name=name, spec=specs.get(name), refusals=MappingProxyType(refusals))


def missing_strategy_error(strategy: str, capabilities: CapabilitySet) -> UnsupportedStrategyError:
    """Return the error for a built-in name that no plugin provides; it is reserved, or the hint names its package."""
    if strategy == DRAFT_MODEL:
        reason = f"the name '{DRAFT_MODEL}' is reserved and nothing implements it"
        return _unsupported(strategy, capabilities, reason=reason, hint="choose one of the available strategies")
    hint = f"its plugin is not installed: pip install {STRATEGY_DISTRIBUTIONS[strategy]}"
    return _unsupported(strategy, capabilities, hint=hint)


def _collect_refusals(
    strategy: str, target_header: GgufHeader, draft_header: GgufHeader | None, specs: Mapping[str, StrategySpec]
) -> dict[str, str]:
    """Ask every strategy; a broken plugin refuses for itself alone, unless it is the one that was asked for."""
    refusals: dict[str, str] = {}
    for name, spec in specs.items():
        reason = _draft_misuse(name, spec.uses_draft_file, draft_header is not None)
        try:
            reason = reason or _ask_spec(spec, target_header, draft_header)
        except PluginContractError as error:
            if name == strategy:
                raise
            reason = str(error)
        if reason:
            refusals[name] = reason
    return refusals


def _ask_spec(spec: StrategySpec, target_header: GgufHeader, draft_header: GgufHeader | None) -> str | None:
    try:
        reason: object = spec.refuse(target_header, draft_header)
    except KeyboardInterrupt:
        raise
    except BaseException as cause:
        raise PluginContractError(
            f"`refuse` of strategy '{spec.name}' raised {type(cause).__name__}, expected None or a sentence: {cause}",
            hook="power_strategies",
        ) from cause
    if reason is None or (isinstance(reason, str) and reason.strip()):
        return reason
    raise PluginContractError(
        f"`refuse` of strategy '{spec.name}' returned {reason!r}; expected None or a sentence", hook="power_strategies"
    )


def _draft_misuse(strategy: str, uses_draft_file: bool, draft_given: bool) -> str | None:
    if uses_draft_file and not draft_given:
        return f"strategy '{strategy}' needs a draft file and none was given"
    if draft_given and not uses_draft_file:
        return f"a draft file was given and strategy '{strategy}' uses none"
    return None


def _require_explicit(
    strategy: str,
    draft_given: bool,
    specs: Mapping[str, StrategySpec],
    refusals: Mapping[str, str],
    capabilities: CapabilitySet,
) -> None:
    """Raise the most telling error when an explicitly named strategy cannot run."""
    if strategy != OFF and strategy not in specs:
        raise missing_strategy_error(strategy, capabilities)
    uses_draft_file = strategy != OFF and specs[strategy].uses_draft_file
    misuse = _draft_misuse(strategy, uses_draft_file, draft_given)
    if misuse:
        hint = (
            "leave the draft file out, or name the strategy that reads it"
            if draft_given
            else "name it with --draft FILE"
        )
        raise ConfigError(misuse, field="draft", hint=hint)
    if strategy in refusals:
        raise _unsupported(strategy, capabilities, reason=refusals[strategy])


def _automatic_choice(
    draft_given: bool, specs: Mapping[str, StrategySpec], refusals: Mapping[str, str], capabilities: CapabilitySet
) -> str:
    if not draft_given:
        return MTP if capabilities.supports(MTP) else OFF
    external = [name for name, spec in specs.items() if spec.uses_draft_file and spec.model_backed]
    fitting = [name for name in external if capabilities.supports(name)]
    if len(fitting) > 1:
        names = ", ".join(_in_order(fitting))
        raise ConfigError(
            f"the draft file fits several strategies: {names}; 'auto' needs exactly one",
            field="spec",
            value=AUTO,
            allowed=names,
            hint="name one of them with --spec",
        )
    if not fitting:
        raise _unusable_draft(specs, refusals, capabilities)
    return fitting[0]


def _unusable_draft(
    specs: Mapping[str, StrategySpec], refusals: Mapping[str, str], capabilities: CapabilitySet
) -> UnsupportedStrategyError:
    readers = [name for name in refusals if name not in specs or specs[name].uses_draft_file]
    reasons = (
        "; ".join(f"{name}: {refusals[name]}" for name in _in_order(readers))
        or "no plugin that reads drafts is installed"
    )
    absent = [
        distribution
        for name, distribution in STRATEGY_DISTRIBUTIONS.items()
        if name in ("dflash", "dflash2", "dspark") and name not in specs and name not in refusals
    ]
    return UnsupportedStrategyError(
        f"no strategy can use the given draft file: {reasons}",
        requested=AUTO,
        available=capabilities.available,
        hint="leave the draft file out" + (f", or install its plugin: one of {', '.join(absent)}" if absent else ""),
    )


def _unsupported(
    resolved: str, capabilities: CapabilitySet, *, requested: str = "", reason: str = "", hint: str = ""
) -> UnsupportedStrategyError:
    text = f"speculative strategy '{resolved}' is not supported by this backend/model"
    available = f"available here: {', '.join(capabilities.available)}"
    return UnsupportedStrategyError(
        f"{text}: {reason}" if reason else text,
        requested=requested or resolved,
        resolved=resolved,
        available=capabilities.available,
        hint=f"{available}; {hint}" if hint else available,
    )


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    built_in = {name: place for place, name in enumerate(CANONICAL_STRATEGIES)}
    return tuple(sorted(names, key=lambda name: (built_in.get(name, len(built_in)), name)))
