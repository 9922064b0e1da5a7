"""Small trained models: a hybrid target with a prediction head, and a draft of each block kind for it.

The core finds this module by the entry point group ``power.models`` and asks it for ``target_path``, ``draft_path`` and
``AUTO_DRAFTS``, the kinds of drafts in the order in which ``--spec auto`` should take them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

ModelName: TypeAlias = Literal["target", "dflash", "dflash2", "dspark"]

AUTO_DRAFTS = ("dspark", "dflash", "dflash2")
HERE = Path(__file__).resolve().parent

__all__ = ["AUTO_DRAFTS", "ModelName", "draft_path", "model_path", "target_path"]


def model_path(name: ModelName) -> Path:
    """Return where a model's GGUF file lies in the installed package; the drafts have a folder of their own."""
    return HERE / ("target" if name == "target" else "drafts") / f"{name}.gguf"


def target_path() -> Path:
    """Return the target."""
    return model_path("target")


def draft_path(kind: str) -> Path | None:
    """Return the draft of a kind (``dflash``, ``dflash2``, ``dspark``), None for any other name."""
    for name in get_args(ModelName):
        if name == kind != "target":
            return model_path(name)
    return None
