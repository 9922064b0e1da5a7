"""Settings of where and how the target is computed: GPU, tensor placement, types of keys and values, processors."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from power_core.errors import out_of_range

if TYPE_CHECKING:
    from power_core.settings import SessionSettings

KV_TYPES = ("f16", "f32", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")
PLAIN_KV_TYPES = ("f16", "f32", "bf16")
_MASK_EXAMPLE = "for example `--cpu-mask 0xf` (`cpu_mask`)"
_MASK = re.compile(r"(?:0x)?[0-9a-fA-F]{1,128}")


def check_placement(settings: SessionSettings) -> None:
    """Refuse contradictions between the settings of placement.

    Raises:
        ConfigError: another type, a device without layers on it, a placement that is no ``PATTERN=BUFFER``, a mask that
            is no hexadecimal number or names no processor of this process, quantised keys and values without flash
            attention, or choices on the device under guarded arithmetic.
    """
    device, mask = settings.device, settings.cpu_mask
    if not _is_word(device):
        raise out_of_range("device", device, "a name", hint="take one that `power doctor` shows")
    if not _is_word(mask):
        raise out_of_range("cpu_mask", mask, "a hexadecimal number", hint=_MASK_EXAMPLE)
    if device is not None and settings.gpu_layers == 0:
        raise out_of_range(
            "device", device, "a GPU only together with `gpu_layers`", hint="add `--gpu-layers -1` (`gpu_layers`)"
        )
    for rule in settings.override_tensor:
        pattern, separator, buffer = str(rule).rpartition("=")
        if not (pattern and separator and buffer) or "\n" in rule:
            example = "for example `--override-tensor 'blk\\.[0-3]\\.ffn_.*=CPU'`"
            raise out_of_range("override_tensor", rule, "PATTERN=BUFFER", hint=example)
    if settings.kv_type not in PLAIN_KV_TYPES and settings.flash_attention == "off":
        allowed = "f16, f32 or bf16 without flash attention"
        raise out_of_range("kv_type", settings.kv_type, allowed, hint="leave flash attention on")
    if settings.device_sampling == "on" and settings.arithmetic == "guarded":
        allowed = "off with guarded arithmetic, which reads the logits"
        raise out_of_range("device_sampling", "on", allowed, hint="leave it out, or choose another `--arithmetic`")
    processors_of(mask)


def processors_of(mask: str | None) -> tuple[int, ...]:
    """Numbers of the processors in a hexadecimal mask, lowest first; none for None.

    Raises:
        ConfigError: no hexadecimal number, zero, or a processor that this process may not use.
    """
    if mask is None:
        return ()
    if not _MASK.fullmatch(mask) or int(mask, 16) == 0:
        raise out_of_range("cpu_mask", mask, "a hexadecimal number with a bit per processor", hint=_MASK_EXAMPLE)
    bits = int(mask, 16)
    wanted = tuple(number for number in range(bits.bit_length()) if bits >> number & 1)
    if not hasattr(os, "sched_getaffinity"):
        allowed = "nothing on this system, which cannot bind threads"
        raise out_of_range("cpu_mask", mask, allowed, hint="leave it out")
    usable = os.sched_getaffinity(0)
    if not usable.issuperset(wanted):
        allowed = f"processors of this process ({_ranges(sorted(usable))})"
        raise out_of_range("cpu_mask", mask, allowed, hint="set the bits of some of those only")
    return wanted


def _is_word(value: object) -> bool:
    return value is None or (isinstance(value, str) and bool(value))


def _ranges(numbers: list[int]) -> str:
    """Numbers in words: ``0-3, 8``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)
