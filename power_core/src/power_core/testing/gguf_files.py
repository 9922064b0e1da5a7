"""Writes a tiny model's GGUF file: whole or not at all, with the tokenizer that every tiny model carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from power_core.errors import ConfigError
from power_core.testing.tokenizer import CHAT_TEMPLATE, END_OF_TEXT, MASK, tiny_tokenizer
from power_core.whole_file import whole_file

if TYPE_CHECKING:
    from gguf import GGUFWriter

WeightType: TypeAlias = Literal["F32", "F16", "Q8_0"]
Tensor: TypeAlias = tuple[str, NDArray[Any], WeightType]

CONTEXT_TOKENS = 8192


def write_model(
    path: Path, architecture: str, add_keys: Callable[[GGUFWriter], None], tensors: Iterable[Tensor]
) -> Path:
    """Write a model file; an existing file is replaced at once, never half-written.

    Args:
        path: Where to write; the folder must exist.
        architecture: ``general.architecture``.
        add_keys: Adds every key that is not the tokenizer's.
        tensors: Name, values and storage of each tensor. Numpy's dimensions are those of ggml reversed. Only matrices
            are stored as told: vectors, tables of ids and convolutions keep the type of their values.

    Returns:
        ``path``.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with whole_file(path) as partial:
            _write(partial, architecture, add_keys, tensors)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}",
            field="path",
            value=str(path),
            allowed="a path in a folder that exists and can be written",
            hint="make the folder, or choose another one",
        ) from error
    return path


def require(ok: bool, field: str, value: object, expected: str) -> None:
    """Refuse an argument of a builder.

    Raises:
        ConfigError: ``ok`` is false.
    """
    if not ok:
        raise ConfigError(f"{field} is {value!r}, expected {expected}", field=field, value=value, allowed=expected)


def _write(path: Path, architecture: str, add_keys: Callable[[GGUFWriter], None], tensors: Iterable[Tensor]) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    writer.add_type("model")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
    add_keys(writer)
    _add_tokenizer(writer)
    for name, values, dtype in tensors:
        _add_tensor(writer, name, values, dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter) -> None:
    tokenizer = tiny_tokenizer()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.token_types)
    writer.add_token_merges(tokenizer.merges)
    writer.add_eos_token_id(tokenizer.id_of(END_OF_TEXT))
    writer.add_mask_token_id(tokenizer.id_of(MASK))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_tensor(writer: GGUFWriter, name: str, values: NDArray[Any], dtype: WeightType) -> None:
    from gguf import GGMLQuantizationType, quants

    if values.ndim != 2 or name.endswith("ssm_conv1d.weight") or dtype == "F32":
        writer.add_tensor(name, values)
    elif dtype == "F16":
        writer.add_tensor(name, values.astype(np.float16))
    else:
        packed = quants.quantize(values, GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
