"""Checks of tensor types: what the graphs multiply, and what they add or scale, which has to be F32.

The native library loads any type and ends the process at the first use of one that an operation lacks.

Source: the CPU backend of llama.cpp at the pinned commit: the types with a dot product, and the operand types of its
element-wise operations and of its state-space convolution.
"""

from __future__ import annotations

import math
import re

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.tensor_table import TensorInfo
from power_core.artifacts.validation import CheckList

MATRIX_TYPES = (
    *("F32", "F16", "BF16"),
    *("Q1_0", "Q2_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "NVFP4"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "TQ1_0", "TQ2_0"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
)
VECTOR_TYPES = ("F32",)
INDEX_TYPES = ("I32", "I64")

_INDEX = re.compile(r"(?:^|\.)(?:d2t|t2d|ffn_gate_tid2eid|masked_embd_ordering)(?:\.weight)?$")
_ELEMENTWISE = re.compile(
    r"(?:^|[._])(?:"
    r"\w*norm(?:_\w+)?|ssm_[ad]|ssm_conv1d(?:_[qkv])?|ple_conv1d|conv|hc_\w*(?:base|scale)|\w+_res_score|"
    r"time_mix_(?:lerp_\w+|first|decay|[wav]0|k_k|k_a|r_k|ln)|channel_mix_lerp_[kr]"
    r")(?:\.weight)?$|\.(?:bias|scale|input_scale)$"
)


def check_tensor_types(header: GgufHeader, checks: CheckList) -> None:
    """Add one check, which names the first tensor of a type that cannot be computed with."""
    wrong = [tensor for tensor in header.tensors.values() if tensor.type_name not in _allowed_types(tensor)]
    if not wrong:
        checks.add("tensor_type", True, f"all {len(header.tensors)} tensors are of a type that can be computed with")
        return
    first, others = wrong[0], len(wrong) - 1
    expected = _allowed_types(first)
    more = f" ({others} more tensors are of a wrong type)" if others else ""
    checks.add(
        "tensor_type",
        False,
        f"tensor {first.name!r} is stored as {first.type_name}, expected {', '.join(expected)}{more}",
        expected=expected,
        actual=first.type_name,
    )


def _allowed_types(tensor: TensorInfo) -> tuple[str, ...]:
    if _INDEX.search(tensor.name):
        return INDEX_TYPES
    is_vector = max(tensor.shape) == math.prod(tensor.shape)
    return VECTOR_TYPES if is_vector or _ELEMENTWISE.search(tensor.name) else MATRIX_TYPES
