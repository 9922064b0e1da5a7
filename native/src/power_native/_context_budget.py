"""The least memory that a context's keys and values take, from the model's metadata.

A lower bound on purpose: what is refused with it could never have fitted. Recurrent state and compute buffers are not
counted, and a layer is counted with its sliding window where the model has one. A context of the multi-token-prediction
head keeps the keys and values of the head's layers only.
"""

from __future__ import annotations

from collections.abc import Callable

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from power_core.target import ModelInfo
from power_native import _raw


def least_context_bytes(
    info: ModelInfo, metadata: Callable[[str], str | None], parameters: _raw.power_context_params
) -> int:
    """Bytes that the keys and values of a context need at least; 0 where the metadata does not say.

    Args:
        info: The model.
        metadata: Looks a metadata key up.
        parameters: The context that is about to be opened.
    """

    def number(name: str) -> int | None:
        text = metadata(f"{info.architecture}.{name}")
        return int(text) if text is not None and text.isdigit() else None

    block_elements, type_bytes = GGML_QUANT_SIZES[_kv_type(parameters.kv_type)]
    heads, key_width = number("attention.head_count_kv"), number("attention.key_length")
    value_width = number("attention.value_length") or key_width
    if heads is None or key_width is None or value_width is None:
        return 0
    positions = parameters.ctx_tokens
    if info.n_swa_tokens:
        positions = min(positions, info.n_swa_tokens)
    nextn = parameters.kind == _raw.POWER_CONTEXT_NEXTN
    layers = info.n_layer_nextn if nextn else _attention_layers(info, number("full_attention_interval"))
    elements = parameters.sequences * positions * layers * heads * (key_width + value_width)
    return elements * type_bytes // block_elements


def _kv_type(name: bytes | None) -> GGMLQuantizationType:
    """Type by ggml's name; an unknown one counts as the default, since the library refuses it anyway."""
    text = (name or b"f16").decode().upper()
    return GGMLQuantizationType[text] if text in GGMLQuantizationType.__members__ else GGMLQuantizationType.F16


def _attention_layers(info: ModelInfo, interval: int | None) -> int:
    if not info.recurrent:
        return info.n_layer
    return info.n_layer // interval if interval else 0
