"""power_native: GGUF models through libpower_native, a pinned llama.cpp behind a small C ABI.

Importing this package loads nothing and works without the library; the first use opens it and checks it.

| Module | Content |
| --- | --- |
| ``model``, ``context``, ``vocabulary``, ``sampler`` | the protocols of ``power_core.target`` |
| ``block``, ``draft``, ``round`` | drafting primitives for plugins |
| ``block_graph``, ``block_opening`` | the draft graph of any block drafter: check, open, feed, draft |
| ``block_rounds`` | its whole rounds |
| ``block_plugin`` | what a block drafter's plugin registers |
| ``info`` | the library's facts and its devices |
| ``quantize`` | ``power_native.quantize.quantize``: another weight type for a file |
| ``plugin`` | what is registered with power_core |
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from power_native._loader import Library, LibraryInfo
    from power_native._loader import library as load_library
    from power_native.block import BlockDraft
    from power_native.block_graph import BlockGraph
    from power_native.block_opening import (
        block_draft_refusal,
        open_block_graph,
        require_block_layout,
    )
    from power_native.block_plugin import block_strategy
    from power_native.context import NativeContext
    from power_native.draft import NextnChain
    from power_native.info import DeviceInfo, devices, exposes_layer_inputs, library_info
    from power_native.model import NativeModel, NativeTraits
    from power_native.round import RoundCall
    from power_native.sampler import GreedySampler, NativeSampler
    from power_native.targets import native_target
    from power_native.vocabulary import NativeVocabulary

__all__ = [
    "BlockDraft",
    "BlockGraph",
    "DeviceInfo",
    "GreedySampler",
    "Library",
    "LibraryInfo",
    "NativeContext",
    "NativeModel",
    "NativeSampler",
    "NativeTraits",
    "NativeVocabulary",
    "NextnChain",
    "RoundCall",
    "block_draft_refusal",
    "block_strategy",
    "devices",
    "exposes_layer_inputs",
    "library_info",
    "load_library",
    "native_target",
    "open_block_graph",
    "require_block_layout",
]

_HOMES = {
    "BlockDraft": "block",
    "BlockGraph": "block_graph",
    "DeviceInfo": "info",
    "GreedySampler": "sampler",
    "Library": "_loader",
    "LibraryInfo": "_loader",
    "NativeContext": "context",
    "NativeModel": "model",
    "NativeSampler": "sampler",
    "NativeTraits": "model",
    "NativeVocabulary": "vocabulary",
    "NextnChain": "draft",
    "RoundCall": "round",
    "block_draft_refusal": "block_opening",
    "block_strategy": "block_plugin",
    "devices": "info",
    "exposes_layer_inputs": "info",
    "library_info": "info",
    "load_library": "_loader",
    "native_target": "targets",
    "open_block_graph": "block_opening",
    "require_block_layout": "block_opening",
}


def __getattr__(name: str) -> Any:
    """Import a public name's module at its first use, so that importing the package stays cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, "library" if name == "load_library" else name)
