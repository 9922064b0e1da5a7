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


@attrs.frozen(kw_only=True)
class ValueKind:
    """How a value is written.

    Attributes:
        flag_type: What the command line parses; a list means that the flag may be repeated.
        toml_types: Types a TOML value may have.
        expected: The same in words.
        convert: Turn either into the settings' own value.
        probe: A value outside every range, which makes the settings say what is allowed.
    """

    flag_type: Any
    toml_types: tuple[type, ...]
    expected: str
    convert: Callable[[Any], Any]
    probe: Any = None


WHOLE = ValueKind(flag_type=int, toml_types=(int,), expected="an integer", convert=int, probe=-(10**12))
NUMBER = ValueKind(flag_type=float, toml_types=(float, int), expected="a number", convert=_number, probe=math.nan)
WORD = ValueKind(flag_type=str, toml_types=(str,), expected="a string", convert=str, probe="?")
FILE = ValueKind(flag_type=Path, toml_types=(str,), expected="a string", convert=Path)
ROWS = ValueKind(flag_type=str, toml_types=(int, str), expected="an integer or a string", convert=_rows, probe="?")
SWITCH = ValueKind(flag_type=str, toml_types=(bool, str), expected="a boolean or a string", convert=_switch, probe="?")
TEXTS = ValueKind(
    flag_type=list[str], toml_types=(str, list), expected="a string or an array of strings", convert=_texts, probe=("",)
)


@attrs.frozen(kw_only=True)
class Setting:
    """One setting under its three names.

    Attributes:
        field: Field of ``owner``; the flag is the same word with dashes.
        key: Key in the configuration file.
        unset: What a default of None means, in words.
    """

    owner: SettingsClass
    field: str
    key: str
    kind: ValueKind
    help: str
    unset: str = ""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + self.field.replace("_", "-")

    @property
    def default(self) -> Any:
        """The default of the settings class."""
        return getattr(self.owner(), self.field)

    @property
    def default_text(self) -> str:
        """The default in words."""
        return self.unset if self.default in (None, ()) else str(self.default)

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


def _sampling(field: str, kind: ValueKind, help: str) -> Setting:
    return Setting(owner=SamplingSettings, field=field, key=field, kind=kind, help=help)


SETTINGS: tuple[Setting, ...] = (
    _session("model", FILE, "Target model, a GGUF file.", unset="a small generated target with random weights"),
    _session("draft", FILE, "External draft model, for the strategies that use one.", unset="none"),
    _session("spec", WORD, "Speculative strategy, or `auto`: the files decide.", key="spec_mode"),
    _session("draft_max", WHOLE, "K, most drafts per round.", key="spec_draft_max", unset="the strategy's own"),
    _session("draft_min", WHOLE, "Fewest drafts worth verifying.", key="spec_draft_min"),
    _session("draft_p_min", NUMBER, "A draft less probable than this ends the proposal.", key="spec_draft_p_min"),
    _session("snapshots", WHOLE, "S, recurrent-state snapshots for rollback.", key="spec_mtp_recurrent_snapshots"),
    _session("verify_rows", ROWS, "Rows per verification slice, or `all`.", unset="fits the snapshots"),
    _session("scheduler", WORD, "What decides the number of drafts per round; `fixed` is the only one so far."),
    _session(
        "mtp_fr_vocab_size", WHOLE, "Rows of the frequency-reduced MTP head.", key="spec_mtp_fr_vocab_size", unset="off"
    ),
    _session("arithmetic", WORD, "`exact` computes verified rows as single rows are computed."),
    Setting(owner=RequestSettings, field="max_tokens", key="max_tokens", kind=WHOLE, help="Most tokens to generate."),
    _sampling("temperature", NUMBER, "0 is greedy."),
    _sampling("top_k", WHOLE, "Keep the k most probable tokens; 0 is off."),
    _sampling("top_p", NUMBER, "Keep the most probable tokens that add up to p; 1 is off."),
    _sampling("min_p", NUMBER, "Drop tokens below p times the best one's probability; 0 is off."),
    _sampling("typical_p", NUMBER, "Locally typical sampling; 1 is off."),
    _sampling("repeat_penalty", NUMBER, "Divides the logits of repeated tokens; 1 is off."),
    _sampling("frequency_penalty", NUMBER, "Subtracted once per occurrence; 0 is off."),
    _sampling("presence_penalty", NUMBER, "Subtracted once per token seen; 0 is off."),
    _sampling("repeat_last_n", WHOLE, "Tokens that penalties look back on; -1 is the whole context."),
    _sampling("seed", WHOLE, "Seed of the target's sampler."),
    Setting(
        owner=RequestSettings,
        field="stop",
        key="stop",
        kind=TEXTS,
        help="End before this text; may be repeated.",
        unset="none",
    ),
    _session("threads", WHOLE, "Compute threads; 0 is one per core.", key="num_thread"),
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
