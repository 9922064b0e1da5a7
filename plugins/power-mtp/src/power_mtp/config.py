"""Options of the strategy, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from power_core.errors import ConfigError, UnsupportedStrategyError

STRATEGY = "mtp"
DEFAULT_DRAFT_MAX_TOKENS = 3
FR_OPTION = "mtp_fr_vocab_size"
FR_ARCHITECTURES = ("qwen35",)
LEAST_FR_ROWS = 1_024
MOST_FR_ROWS = 1_048_576


@attrs.frozen(kw_only=True)
class MtpConfig:
    """Options of the strategy.

    Attributes:
        fr_vocab_size: Rows of a frequency-reduced draft head, 1,024..1,048,576; None drafts from the full vocabulary.

    Raises:
        ConfigError: out of range.

    Source: power_reference.md section 5.
    """

    fr_vocab_size: int | None = None

    def __attrs_post_init__(self) -> None:
        rows = self.fr_vocab_size
        whole = isinstance(rows, int) and not isinstance(rows, bool)
        if rows is None or (whole and LEAST_FR_ROWS <= rows <= MOST_FR_ROWS):
            return
        allowed = f"a whole number from {LEAST_FR_ROWS:,} to {MOST_FR_ROWS:,}"
        raise ConfigError(
            f"`spec_{FR_OPTION}` is {rows!r}, expected {allowed}",
            field=FR_OPTION,
            value=rows,
            allowed=allowed,
            hint="leave it unset to draft from the full vocabulary",
        )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> MtpConfig:
        """Take the options of ``DrafterContext``.

        Raises:
            ConfigError: an option that the strategy does not know, or a value out of range.
        """
        unknown = sorted(options.keys() - {FR_OPTION})
        if unknown:
            raise ConfigError(
                f"strategy '{STRATEGY}' has no option {unknown[0]!r}, expected `{FR_OPTION}` or none",
                field=unknown[0],
                value=options[unknown[0]],
                allowed=FR_OPTION,
                hint=f"leave `{unknown[0]}` unset",
            )
        return cls(fr_vocab_size=options.get(FR_OPTION))

    def require_supported(self, architecture: str) -> None:
        """Refuse what the pinned llama.cpp cannot do; nothing is ignored.

        Raises:
            UnsupportedStrategyError: a reduced draft vocabulary was asked for.
        """
        if self.fr_vocab_size is None:
            return
        if architecture not in FR_ARCHITECTURES:
            reason = (
                f"is not implemented for GGUF architecture '{architecture}', only for {', '.join(FR_ARCHITECTURES)}"
            )
        else:
            reason = "needs a reduced draft head, which the pinned llama.cpp cannot run yet"
        raise UnsupportedStrategyError(
            f"`spec_{FR_OPTION}` {reason}; the value was {self.fr_vocab_size}",
            requested=STRATEGY,
            hint=f"leave `spec_{FR_OPTION}` unset: MTP then drafts from the full vocabulary",
        )
