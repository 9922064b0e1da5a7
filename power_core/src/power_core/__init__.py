"""Power: speculative decoding for local models. The target decides every token; a drafter only proposes.

Map of the package, outermost first:

- ``opening``      open a session from files and settings
- ``session``      requests on one sequence; ``generation`` the decode loop behind an iterator
- ``transaction``  one round, rolled back unless committed; ``sequence`` the target's committed history
- ``verify``       sample-and-match, pure; ``scheduling`` draft widths; ``stops``, ``text`` what is shown
- ``target``, ``drafter``, ``sampler``, ``cache_state``  the protocols a backend or plugin implements
- ``graph_drafter``  the drafter of every plugin that has a draft graph; ``blocks`` the geometry of anchored blocks
- ``admission``    manifests of checked drafts; ``draft_choice`` the draft that a session reads
- ``artifacts``    GGUF headers, identities, validators; ``plugins`` discovery and hooks; ``cli`` the command line

Names are loaded on first use, so that a plugin's registration module stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from power_core.errors import PowerError
    from power_core.generation import Generation, TokenPiece
    from power_core.opening import open_session
    from power_core.report import GenerationResult, Report
    from power_core.sampler import SamplingSettings
    from power_core.session import Session
    from power_core.settings import RequestSettings, SessionSettings

_HOMES = {
    "Generation": "generation",
    "GenerationResult": "report",
    "PowerError": "errors",
    "Report": "report",
    "RequestSettings": "settings",
    "SamplingSettings": "sampler",
    "Session": "session",
    "SessionSettings": "settings",
    "TokenPiece": "generation",
    "open_session": "opening",
}

__all__ = [
    "Generation",
    "GenerationResult",
    "PowerError",
    "Report",
    "RequestSettings",
    "SamplingSettings",
    "Session",
    "SessionSettings",
    "TokenPiece",
    "open_session",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'power_core' has no attribute {name!r}")
    return getattr(import_module(f"power_core.{_HOMES[name]}"), name)
