"""Does this CPU have what the library was compiled for? Asked before the first computation, which would be a SIGILL."""

from __future__ import annotations

from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")

# ggml's feature name -> the flags Linux prints for it. Features without a CPU flag (OPENMP, REPACK ...) are not listed.
_FLAGS = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "AVX_VNNI": "avx_vnni",
    "AVX2": "avx2",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
    "NEON": "asimd",
    "FP16_VA": "asimdhp",
    "DOTPROD": "asimddp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
    "SME": "sme",
}


def compiled_features(text: str) -> tuple[str, ...]:
    """Names that the library reports as compiled in, from ``NAME=1`` items separated by blanks."""
    items = (item.partition("=") for item in text.split())
    return tuple(name for name, _, value in items if value not in ("", "0"))


def cpu_flags(cpu_info: Path = CPU_INFO) -> frozenset[str] | None:
    """Flags of this machine's first CPU; None where the system has no such file (then nothing can be checked)."""
    try:
        lines = cpu_info.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return None


def missing_features(features: tuple[str, ...], flags: frozenset[str] | None) -> tuple[str, ...]:
    """Features the library needs and the CPU lacks; empty when all are there or nothing is known about the CPU."""
    if flags is None:
        return ()
    return tuple(name for name in features if name in _FLAGS and _FLAGS[name] not in flags)
