"""The table of settings: every setting under its three names, field, key of the file and flag."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from power_core.errors import ConfigError
from power_core.sampler import SamplingSettings
from power_core.settings import RequestSettings, SessionSettings

SettingsClass: TypeAlias = type[SessionSettings] | type[RequestSettings] | type[SamplingSettings]


def _rows(value: int | str) -> int | str:
    """Turn digits into a number; every other word is left for the settings to judge."""
    try:
        return int(value)
    except ValueError:
        return value


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of TOML may have any number of digits
        return math.inf if value > 0 else -math.inf


def _switch(value: bool | str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value


def _texts(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _breakers(value: str | list[str]) -> tuple[str, ...]:
    """The word `none` alone stands for no breaker at all, as in llama.cpp."""
    return () if _texts(value) == ("none",) else _texts(value)


def _ids(value: int | list[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def _biases(value: str | list[str] | dict[str, Any]) -> tuple[Any, ...]:
    """Turn `ID=VALUE` and the lines of a table into pairs; what is neither is left for the settings to judge."""
    if isinstance(value, dict):
        return tuple(_bias(str(token), bias) or (token, bias) for token, bias in value.items())
    return tuple(_bias(*text.partition("=")[::2]) or text for text in _texts(value))


def _bias(token: str, bias: Any) -> tuple[int, float] | None:
    try:
        return int(token), float(bias)
    except (ValueError, TypeError, OverflowError):
        return None


@attrs.frozen(kw_only=True)
class ValueKind:
    """How a value is written.

    Attributes:
        flag_type: What the command line parses; a list means that the flag may be repeated.
        toml_types: Types a TOML value may have.
        item_type: Type of the items of a TOML array.
        metavar: Placeholder in the help where the type does not say enough.
        expected: The same in words.
        convert: Turn either into the settings' own value.
        probe: A value outside every range, which makes the settings say what is allowed.
    """

    flag_type: Any
    toml_types: tuple[type, ...]
    expected: str
    convert: Callable[[Any], Any]
    probe: Any = None
    item_type: type = str
    metavar: str = ""


WHOLE = ValueKind(flag_type=int, toml_types=(int,), expected="an integer", convert=int, probe=-(10**12))
NUMBER = ValueKind(flag_type=float, toml_types=(float, int), expected="a number", convert=_number, probe=math.nan)
WORD = ValueKind(flag_type=str, toml_types=(str,), expected="a string", convert=str, probe="?")
TEXT = ValueKind(flag_type=str, toml_types=(str,), expected="a string", convert=str)
DEVICE = ValueKind(flag_type=str, toml_types=(int, str), expected="an integer or a string", convert=str)
FILE = ValueKind(flag_type=Path, toml_types=(str,), expected="a string", convert=Path)
ROWS = ValueKind(flag_type=str, toml_types=(int, str), expected="an integer or a string", convert=_rows, probe="?")
SWITCH = ValueKind(flag_type=str, toml_types=(bool, str), expected="a boolean or a string", convert=_switch, probe="?")
TEXTS = ValueKind(
    flag_type=list[str], toml_types=(str, list), expected="a string or an array of strings", convert=_texts, probe=("",)
)
BREAKERS = ValueKind(
    flag_type=list[str],
    toml_types=(str, list),
    expected="a string or an array of strings",
    convert=_breakers,
    probe=("",),
)
IDS = ValueKind(
    flag_type=list[int],
    toml_types=(int, list),
    expected="an integer or an array of integers",
    convert=_ids,
    probe=(-1,),
    item_type=int,
)
GRAMMAR = attrs.evolve(TEXT, metavar="TEXT")
BIASES = ValueKind(
    flag_type=list[str],
    toml_types=(str, list, dict),
    expected="a table of numbers by token id, or strings `ID=VALUE`",
    convert=_biases,
    probe=("",),
    metavar="ID=VALUE",
)


@attrs.frozen(kw_only=True)
class Setting:
    """One setting under its three names.

    Attributes:
        field: Field of ``owner``; the flag is the same word with dashes, or else ``option``.
        key: Key in the configuration file.
        unset: What a default of None means, in words.
    """

    owner: SettingsClass
    field: str
    key: str
    kind: ValueKind
    help: str
    unset: str = ""
    option: str = ""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + (self.option or self.field.replace("_", "-"))

    @property
    def default(self) -> Any:
        """The default of the settings class."""
        return getattr(self.owner(), self.field)

    @property
    def default_text(self) -> str:
        """The default in words."""
        if self.default in (None, (), ""):
            return self.unset
        return " ".join(map(repr, self.default)) if isinstance(self.default, tuple) else str(self.default)

    @property
    def allowed(self) -> str:
        """What the settings accept, in their own words; empty when any value of the type is accepted."""
        if self.kind.probe is None:
            return ""
        try:
            self.owner(**{self.field: self.kind.probe})
        except ConfigError as error:
            return error.allowed
        return ""


def _session(field: str, kind: ValueKind, help: str, *, key: str = "", unset: str = "") -> Setting:
    return Setting(owner=SessionSettings, field=field, key=key or field, kind=kind, help=help, unset=unset)


def _sampling(field: str, kind: ValueKind, help: str, *, unset: str = "", option: str = "") -> Setting:
    return Setting(owner=SamplingSettings, field=field, key=field, kind=kind, help=help, unset=unset, option=option)


def _request(field: str, kind: ValueKind, help: str, *, unset: str = "", option: str = "") -> Setting:
    return Setting(owner=RequestSettings, field=field, key=field, kind=kind, help=help, unset=unset, option=option)


SETTINGS: tuple[Setting, ...] = (
    _session(
        "model",
        FILE,
        "Target model, a GGUF file.",
        unset="the target of power-zoo where that is installed, else a small one with random weights",
    ),
    _session("draft", FILE, "External draft model, for the strategies that use one.", unset="none"),
    _session("spec", WORD, "Speculative strategy, or `auto`: the files decide.", key="spec_mode"),
    _session("draft_max", WHOLE, "K, most drafts per round.", key="spec_draft_max", unset="the strategy's own"),
    _session("draft_min", WHOLE, "Fewest drafts worth verifying.", key="spec_draft_min"),
    _session("draft_p_min", NUMBER, "A draft less probable than this ends the proposal.", key="spec_draft_p_min"),
    _session("snapshots", WHOLE, "S, recurrent-state snapshots for rollback.", key="spec_mtp_recurrent_snapshots"),
    _session("verify_rows", ROWS, "Rows per verification slice, or `all`.", unset="fits the snapshots"),
    _session(
        "verify_shape",
        WORD,
        "`fixed` fills slices to the same number of rows and drops what it added, so that a device repeats one graph.",
    ),
    _session(
        "scheduler",
        WORD,
        "What decides the number of drafts per round: always K, what was accepted, or the best measured rate.",
    ),
    _session(
        "mtp_fr_vocab_size",
        WHOLE,
        "MTP drafts only the first so many tokens: by id, or by the map's rank.",
        key="spec_mtp_fr_vocab_size",
        unset="all",
    ),
    _session(
        "mtp_fr_map",
        FILE,
        "File of `power-fr-map` that ranks the tokens that MTP drafts.",
        key="spec_mtp_fr_map",
        unset="order of the token ids",
    ),
    _session(
        "arithmetic",
        WORD,
        "`exact`: a verified row has the bits of a single row; `fast`: quickest; `guarded`: fast, near-ties exactly.",
    ),
    _request("max_tokens", WHOLE, "Most tokens to generate."),
    _sampling("temperature", NUMBER, "0 is greedy."),
    _sampling("top_k", WHOLE, "Keep the k most probable tokens; 0 is off."),
    _sampling("top_p", NUMBER, "Keep the most probable tokens that add up to p; 1 is off."),
    _sampling("min_p", NUMBER, "Drop tokens below p times the best one's probability; 0 is off."),
    _sampling("typical_p", NUMBER, "Locally typical sampling; 1 is off."),
    _sampling("repeat_penalty", NUMBER, "Divides the logits of repeated tokens; 1 is off."),
    _sampling("frequency_penalty", NUMBER, "Subtracted once per occurrence; 0 is off."),
    _sampling("presence_penalty", NUMBER, "Subtracted once per token seen; 0 is off."),
    _sampling("repeat_last_n", WHOLE, "Tokens that penalties look back on; -1 is the whole context."),
    _sampling("dry_multiplier", NUMBER, "Strength of DRY against prolonged repetitions; 0 is off."),
    _sampling("dry_base", NUMBER, "DRY's penalty grows by this factor per token of a repetition."),
    _sampling("dry_allowed_length", WHOLE, "Repetitions up to this length cost nothing."),
    _sampling("dry_penalty_last_n", WHOLE, "Tokens that DRY looks back on; -1 is the whole context."),
    _sampling(
        "dry_sequence_breakers",
        BREAKERS,
        "No repetition reaches across this text; may be repeated, `none` for no breaker.",
        option="dry-sequence-breaker",
    ),
    _sampling("xtc_probability", NUMBER, "How often XTC removes all but the least of the likely tokens; 0 is off."),
    _sampling("xtc_threshold", NUMBER, "Probability from which XTC calls a token likely; above 0.5 is off."),
    _sampling("logit_bias", BIASES, "Added to the logit of a token, -inf forbids it; may be repeated.", unset="none"),
    _sampling("grammar", GRAMMAR, "GBNF text whose rule `root` the output matches.", unset="none"),
    _sampling("grammar_file", FILE, "File with a GBNF grammar.", unset="none"),
    _sampling("seed", WHOLE, "Seed of the target's sampler."),
    _request("stop", TEXTS, "End before this text; may be repeated.", unset="none"),
    _request("stop_tokens", IDS, "End before this token; may be repeated.", unset="none", option="stop-token"),
    _request("logprobs", WHOLE, "Report each token's log-probability and so many of the likeliest.", unset="off"),
    _session("threads", WHOLE, "Compute threads; 0 is one per core.", key="num_thread"),
    _session(
        "threads_batch",
        WHOLE,
        "Compute threads of evaluations of several rows; 0 is `threads`.",
        key="num_thread_batch",
    ),
    _session(
        "cpu_mask",
        TEXT,
        "Processors that the compute threads run on, a hexadecimal number with a bit each.",
        unset="left to the system",
    ),
    _session(
        "ctx",
        WHOLE,
        "Context size in tokens.",
        key="num_ctx",
        unset="4096, or less where the target or the draft was trained with less",
    ),
    _session(
        "batch",
        WHOLE,
        "Most rows of one evaluation.",
        key="num_batch",
        unset="512, or less in a smaller context",
    ),
    _session(
        "ubatch",
        WHOLE,
        "Rows computed at once and per prompt chunk, at most the batch; fewer need less memory.",
        key="num_ubatch",
        unset="the batch",
    ),
    _session("gpu_layers", WHOLE, "Layers to offload; -1 is all."),
    _session(
        "device",
        DEVICE,
        "The only GPU to use: its name in `power doctor`, or its number from 0.",
        key="main_gpu",
        unset="every GPU",
    ),
    _session(
        "override_tensor",
        TEXTS,
        "Put tensors of the target whose name matches into a buffer, `PATTERN=BUFFER`; may be repeated.",
        unset="none",
    ),
    _session("kv_type", WORD, "Type of the target's keys and values."),
    _session("device_sampling", SWITCH, "Greedy choices on the device; logits do not cross to the host."),
    _session("flash_attention", SWITCH, "`auto` is on wherever exact arithmetic needs it."),
)

ADAPTIVE_KEY = "spec_mtp_adaptive"
CHAIN_KEY = "spec_mtp_recurrent_chain"
SWITCH_KEYS: Mapping[str, str] = {
    ADAPTIVE_KEY: '`true` is `scheduler = "adaptive"`, `false` is `scheduler = "fixed"`.',
    CHAIN_KEY: "Only `true`: drafts are always chained where the model allows it.",
}
"""Keys without a flag of their own: booleans."""

BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}
BY_FIELD: Mapping[str, Setting] = {setting.field: setting for setting in SETTINGS}
