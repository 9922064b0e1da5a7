"""Options of the strategy, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.errors import ConfigError, UnsupportedStrategyError

STRATEGY = "mtp"
DEFAULT_DRAFT_MAX_TOKENS = 3
FR_OPTION = "mtp_fr_vocab_size"
MAP_OPTION = "mtp_fr_map"
OPTIONS = (FR_OPTION, MAP_OPTION)
FR_ARCHITECTURES = ("mimo2", "qwen35", "qwen35moe", "qwen3next")
MOST_FR_ROWS = 1_048_576


@attrs.frozen(kw_only=True)
class MtpConfig:
    """Options of the strategy: which tokens the heads can propose.

    Attributes:
        fr_vocab_size: Rows of a frequency-reduced draft head, 1..1,048,576: the first token ids, or the first tokens of
            ``fr_map``. None takes all tokens, or all of the map.
        fr_map: File that ranks the tokens (``power_mtp.fr_map``); None is the order of the target's token ids.

    Raises:
        ConfigError: out of range, or no path.

    Source: power_reference.md section 5.
    """

    fr_vocab_size: int | None = None
    fr_map: Path | None = None

    def __attrs_post_init__(self) -> None:
        rows = self.fr_vocab_size
        whole = isinstance(rows, int) and not isinstance(rows, bool)
        if rows is not None and not (whole and 1 <= rows <= MOST_FR_ROWS):
            raise _wrong(FR_OPTION, rows, f"a whole number from 1 to {MOST_FR_ROWS:,}")
        if not isinstance(self.fr_map, Path | None):
            raise _wrong(MAP_OPTION, self.fr_map, "a pathlib.Path")

    @property
    def reduced(self) -> bool:
        """Whether anything but the whole vocabulary was asked for."""
        return self.fr_vocab_size is not None or self.fr_map is not None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> MtpConfig:
        """Take the options of ``DrafterContext``.

        Raises:
            ConfigError: an option that the strategy does not know, or a value out of range.
        """
        unknown = sorted(options.keys() - set(OPTIONS))
        if unknown:
            names = " and ".join(f"`{name}`" for name in OPTIONS)
            raise ConfigError(
                f"strategy '{STRATEGY}' has no option {unknown[0]!r}, only {names}",
                field=unknown[0],
                value=options[unknown[0]],
                allowed=", ".join(OPTIONS),
                hint=f"leave `{unknown[0]}` unset",
            )
        return cls(fr_vocab_size=options.get(FR_OPTION), fr_map=options.get(MAP_OPTION))

    def require_supported(self, architecture: str) -> None:
        """Refuse what the pinned llama.cpp cannot do; nothing is ignored.

        Raises:
            UnsupportedStrategyError: a reduced draft vocabulary was asked for, for another architecture.
        """
        if not self.reduced or architecture in FR_ARCHITECTURES:
            return
        option = FR_OPTION if self.fr_map is None else MAP_OPTION
        raise UnsupportedStrategyError(
            f"`spec_{option}` is not implemented for GGUF architecture '{architecture}', only for "
            f"{', '.join(FR_ARCHITECTURES)}; the value was {self.fr_map or self.fr_vocab_size}",
            requested=STRATEGY,
            hint=f"leave `spec_{option}` unset: MTP then drafts from the full vocabulary",
        )


def _wrong(option: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(
        f"`spec_{option}` is {value!r}, expected {allowed}",
        field=option,
        value=value,
        allowed=allowed,
        hint="leave it unset to draft from the full vocabulary",
    )
