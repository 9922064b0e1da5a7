"""Data that plugins register. Frozen values, checked when they arrive; the decode loop calls none of the hooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from power_core.errors import PluginVersionError

if TYPE_CHECKING:
    from power_core.artifacts.gguf import GgufHeader
    from power_core.drafter import Drafter
    from power_core.target import ModelSettings, TargetContext, TargetModel
    from power_core.tokens import TapRequest

API_VERSION = (1, 0)

LoadProgress: TypeAlias = "Callable[[float], None]"


@attrs.frozen(kw_only=True)
class PluginInfo:
    """The handshake, asked for before any other hook.

    Attributes:
        name: Short name, usually the distribution without ``power-``.
        api: ``(major, minor)`` of the API the plugin was written for: same major, minor not above the core's.
        summary: One sentence for ``power plugins list``.
    """

    name: str
    api: tuple[int, int]
    summary: str = ""


@attrs.frozen(kw_only=True)
class TargetNeeds:
    """What a strategy needs from the target before it is loaded and opened."""

    nextn_weights: bool = False
    taps: TapRequest | None = None


@attrs.frozen(kw_only=True)
class DrafterContext:
    """All a drafter factory gets. ``api_version`` lets a plugin serve an older core; unknown majors must be refused.

    ``draft_p_min`` is the ``DraftRequest.p_min`` of every request: what has no confidence refuses one above 0 at once.
    """

    api_version: tuple[int, int]
    target_model: TargetModel
    target_context: TargetContext
    target_header: GgufHeader
    draft_path: Path | None
    draft_header: GgufHeader | None
    draft_max_tokens: int
    draft_p_min: float = 0.0
    threads: int = 0
    options: dict[str, Any] = attrs.field(factory=dict)

    def require_api(self, major: int, distribution: str) -> None:
        """Refuse a core that speaks another major version of the plugin API than ``distribution`` was written for.

        Raises:
            PluginVersionError: carries the distribution.
        """
        if self.api_version[0] != major:
            raise PluginVersionError(
                f"the core has plugin API {self.api_version!r}, expected major version {major}",
                distribution=distribution,
                hint=f"install the {distribution} release that belongs to this power-core",
            )


@attrs.frozen(kw_only=True)
class StrategySpec:
    """One strategy.

    Attributes:
        name: Canonical kebab-case name.
        aliases: Other accepted spellings, lower case.
        summary: One sentence.
        default_draft_max_tokens: K when the user set none.
        uses_draft_file: True when an external draft artifact is required.
        model_backed: True when it has a draft graph (MTP, external drafts); False for zero-weight strategies.
        refuse: ``refuse(target_header, draft_header)`` returns None when the strategy can run on these files, else one
            sentence that says what is missing. Must not open anything.
        most_drafts: ``most_drafts(target_header, draft_header)`` returns the most drafts that a round can have with
            these files (heads, block size), or None when there is no such bound.
        most_ctx: ``most_ctx(target_header, draft_header)`` returns the longest context, in tokens, that the draft can
            follow, or None when the target alone bounds it.
        has_confidence: ``has_confidence(target_header, draft_header)`` is False when drafts come without confidences:
            ``draft_p_min`` above 0 is refused then.
        needs: ``needs(target_header, draft_header)`` tells what to load and expose.
        create_drafter: Build the drafter; may raise any ``PowerError``.
        schedulers: Schedulers that it runs with, the preferred one first; asking for another one is an error.
        options: Names of strategy options it understands, e.g. ``mtp_fr_vocab_size``.
    """

    name: str
    aliases: tuple[str, ...] = ()
    summary: str = ""
    default_draft_max_tokens: int = 4
    uses_draft_file: bool = False
    model_backed: bool = False
    refuse: Callable[[GgufHeader, GgufHeader | None], str | None]
    needs: Callable[[GgufHeader, GgufHeader | None], TargetNeeds]
    create_drafter: Callable[[DrafterContext], Drafter]
    most_drafts: Callable[[GgufHeader, GgufHeader | None], int | None] = lambda target, draft: None
    most_ctx: Callable[[GgufHeader, GgufHeader | None], int | None] = lambda target, draft: None
    has_confidence: Callable[[GgufHeader, GgufHeader | None], bool] = lambda target, draft: True
    schedulers: tuple[str, ...] = ("fixed", "adaptive", "goodput")
    options: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class BackendSpec:
    """A way to run target models.

    Attributes:
        name: Name of the backend.
        summary: One sentence.
        open_model: ``open_model(settings, progress)`` returns a ``TargetModel``.
        build_key: ``build_key()`` returns text that changes with everything of the installation that decides the bits
            of a logit: library, devices, switches. Measurements are kept under it; empty text keeps none.
    """

    name: str
    summary: str = ""
    open_model: Callable[[ModelSettings, LoadProgress | None], TargetModel]
    build_key: Callable[[], str] = lambda: ""


@attrs.frozen(kw_only=True)
class HealthResult:
    """One line of ``power doctor``."""

    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    hint: str = ""


@attrs.frozen(kw_only=True)
class HealthCheck:
    """A named check for ``power doctor``; ``run`` returns results and must not raise."""

    name: str
    run: Callable[[], list[HealthResult]]
