"""Charts as a PNG file, drawn by matplotlib, which the extra ``power-core[plot]`` installs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from power_core.bench.charts import Chart
from power_core.errors import ConfigError
from power_core.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (7.5, 3.6)


def draw_png(charts: Sequence[Chart], path: Path) -> None:
    """Draw the charts below each other into a PNG file; an existing file is replaced at once.

    Raises:
        ConfigError: matplotlib is not installed (``plot.missing``), or the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "a PNG needs matplotlib, which is not installed",
            field="png",
            hint="pip install 'power-core[plot]', or leave --png out for text",
            code="plot.missing",
        ) from error
    figure = Figure(figsize=(INCHES[0], INCHES[1] * len(charts)), layout="constrained")
    FigureCanvasAgg(figure)
    for place, chart in enumerate(charts, start=1):
        _draw(figure.add_subplot(len(charts), 1, place), chart)
    try:
        with whole_file(path) as partial:
            figure.savefig(partial, format="png", dpi=110)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}", field="png", hint="check the folder after --png"
        ) from error


def _draw(axes: Axes, chart: Chart) -> None:
    if chart.kind == "lines":
        _draw_lines(axes, chart)
    else:
        _draw_bars(axes, chart)
    axes.set_title(chart.title, fontsize=9)


def _draw_lines(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import MaxNLocator

    for series in chart.series:
        places = [int(point.at) for point in series.points]
        axes.plot(places, [point.value for point in series.points], marker="o", label=series.label)
    axes.set_xlabel(chart.at_label)
    axes.set_ylabel(chart.value_label)
    axes.set_ylim(bottom=0.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=7)


def _draw_bars(axes: Axes, chart: Chart) -> None:
    points = [point for series in chart.series for point in series.points]
    values = [point.value for point in points]
    below = [0.0 if point.low is None else point.value - point.low for point in points]
    above = [0.0 if point.high is None else point.high - point.value for point in points]
    axes.barh([str(point.at) for point in points], values, xerr=[below, above], capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel(chart.value_label)
