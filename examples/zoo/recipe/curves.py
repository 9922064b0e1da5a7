"""Draws the curves of all trainings into one picture."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

SHOWN = {
    "target": ("loss", "validation"),
    "mtp": ("validation_right_1", "validation_right_2"),
    "dflash": ("validation_right_1", "validation_right_4"),
    "dspark": ("validation_right_1", "validation_right_4"),
    "dflash2": ("validation_right_1", "validation_right_4"),
}


def draw_curves(folder: Path, picture: Path) -> None:
    """Draw what ``<name>.curve.json`` files of a folder hold against CPU minutes of training."""
    figure, axes = pyplot.subplots(1, len(SHOWN), figsize=(4 * len(SHOWN), 3.5), layout="constrained")
    for axis, (name, values) in zip(axes, SHOWN.items(), strict=True):
        curve = json.loads((folder / f"{name}.curve.json").read_text(encoding="utf-8"))
        for value in values:
            axis.plot([point["cpu_seconds"] / 60 for point in curve], [point[value] for point in curve], label=value)
        axis.set(
            title=name, xlabel="CPU minutes", ylabel="nats per token" if name == "target" else "share of right drafts"
        )
        axis.legend()
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)
