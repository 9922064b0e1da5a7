"""The picture of a device report: row differences, cost by rows, gains beside the seeds'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from power_core.bench.charts import Chart, Point, Series
from power_core.bench.drawing import draw_png


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw what the report holds; sections that failed leave their picture out."""
    sections = report["sections"]
    charts = []
    if "table" in sections.get("exactness", {}):
        charts.append(_differences(sections["exactness"]))
    if "gains" in sections.get("costs", {}):
        charts += [_costs(sections["costs"]), _gains(sections["costs"])]
    if charts:
        draw_png(charts, path)


def _differences(section: dict[str, Any]) -> Chart:
    series = tuple(
        Series(
            label=entry["type"],
            points=tuple(Point(at=cell["rows"], value=cell["largest_difference"]) for cell in entry["widths"]),
        )
        for entry in section["table"]
    )
    title = f"largest logit difference from single rows ({section['arithmetic']})"
    return Chart(title=title, at_label="rows", value_label="difference", kind="lines", series=series)


def _costs(section: dict[str, Any]) -> Chart:
    curves = {f"{layers} layers": curve for layers, curve in section["verify_ms_by_rows"].items()}
    series = tuple(
        Series(label=label, points=tuple(Point(at=int(rows), value=ms) for rows, ms in curve.items()))
        for label, curve in curves.items()
    )
    title = "verification of random-weight slices, Q6_K"
    return Chart(title=title, at_label="rows", value_label="ms", kind="lines", series=series)


def _gains(section: dict[str, Any]) -> Chart:
    points = []
    for gain in section["gains"]:
        name = f"{gain['strategy']} K{gain['draft_max']}/S{gain['snapshots']}"
        points.append(Point(at=f"{name}, scaled", value=gain["scaled_gain"]))
        points.append(Point(at=f"{name}, seeds", value=gain["seed_gain"]))
    title = "decode gain with synthetic acceptance; the seeds' figures are of another card and model"
    return Chart(
        title=title,
        at_label="",
        value_label="times target-only",
        kind="bars",
        series=(Series(label="", points=tuple(points)),),
    )
